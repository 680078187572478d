"""Tianshou's multi-agent collector: DQN as one player, random legal moves as the other, on the PettingZoo environment.

Install tianshou apart, as examples/requirements-tianshou.txt says.

python examples/tianshou_dqn.py --epochs 5
"""

from __future__ import annotations

import argparse

import numpy as np

try:
    import torch
    from tianshou.algorithm import DQN, MARLRandomDiscreteMaskedOffPolicyAlgorithm, MultiAgentOffPolicyAlgorithm
    from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
    from tianshou.algorithm.optim import AdamOptimizerFactory
    from tianshou.data import Collector, CollectStats, VectorReplayBuffer
    from tianshou.env import DummyVectorEnv, PettingZooEnv
    from tianshou.trainer import OffPolicyTrainerParams
    from tianshou.utils.net.common import Net
except ImportError as error:
    raise SystemExit(f"error: {error}; set up what examples/requirements-tianshou.txt says") from None

from togyz_env import togyzqumalaq_v0


def make_env() -> PettingZooEnv:
    return PettingZooEnv(togyzqumalaq_v0.env(observation="rules"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=5, help="epochs (default: 5)")
    parser.add_argument("--steps", type=int, default=10_000, help="steps of an epoch (default: 10000)")
    parser.add_argument("--games", type=int, default=20, help="evaluation games after each epoch (default: 20)")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(arguments.seed)
    np.random.seed(arguments.seed)  # noqa: NPY002 - tianshou draws from it
    env = make_env()
    space = env.observation_space["observation"]
    net = Net(state_shape=space.shape, action_shape=9, hidden_sizes=[256, 256])
    policy = DiscreteQLearningPolicy(model=net, action_space=env.action_space, observation_space=space, eps_training=0.1)
    learner = DQN(policy=policy, optim=AdamOptimizerFactory(lr=3e-4), gamma=1.0, n_step_return_horizon=5, target_update_freq=500)
    rival = MARLRandomDiscreteMaskedOffPolicyAlgorithm(action_space=env.action_space)
    players = MultiAgentOffPolicyAlgorithm(algorithms=[learner, rival], env=env)

    train = Collector[CollectStats](players, DummyVectorEnv([make_env] * 8), VectorReplayBuffer(100_000, 8), exploration_noise=True)
    test = Collector[CollectStats](players, DummyVectorEnv([make_env] * 4))
    train.reset()
    train.collect(n_step=min(1_000, arguments.steps))
    result = players.run_training(
        OffPolicyTrainerParams(
            training_collector=train,
            test_collector=test,
            max_epochs=arguments.epochs,
            epoch_num_steps=arguments.steps,
            collection_step_num_env_steps=min(200, arguments.steps),
            test_step_num_episodes=arguments.games,
            batch_size=128,
            update_step_num_gradient_steps_per_sample=0.1,
            multi_agent_return_reduction=lambda returns: returns[:, 0],
            verbose=False,
            show_progress=False,
        )
    )
    print(f"mean return of the learner against random, best epoch: {result.best_score:+.2f}")


if __name__ == "__main__":
    main()
