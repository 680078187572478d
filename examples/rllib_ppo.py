"""PPO of RLlib with action masks, against a fixed opponent.

RLlib wants an older Gymnasium than the rest: give it an environment of its own, as examples/requirements-rllib.txt says.

python examples/rllib_ppo.py --iterations 20
"""

from __future__ import annotations

import argparse
import os
from typing import Any

import gymnasium as gym
import numpy as np

try:
    import ray
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.core.rl_module.rl_module import RLModuleSpec
    from ray.rllib.examples.rl_modules.classes.action_masking_rlm import ActionMaskingTorchRLModule
    from ray.tune.registry import register_env
except ImportError as error:
    raise SystemExit(f"error: {error}; set up what examples/requirements-rllib.txt says") from None


class ForRLlib(gym.ObservationWrapper):  # type: ignore[type-arg]
    """RLlib's masking module calls the observation ``observations`` and wants a mask of floats."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        mask = gym.spaces.Box(0.0, 1.0, (9,), np.float32)
        self.observation_space = gym.spaces.Dict({"observations": env.observation_space["observation"], "action_mask": mask})

    def observation(self, observation: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {"observations": observation["observation"], "action_mask": observation["action_mask"].astype(np.float32)}


def make_env(config: dict[str, Any]) -> gym.Env[Any, Any]:
    return ForRLlib(gym.make("togyz_env:Togyzqumalaq-v0", agent_side="random", **config))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=int, default=20, help="rounds of collecting and learning (default: 20)")
    parser.add_argument("--batch", type=int, default=4_000, help="steps of a round (default: 4000)")
    parser.add_argument("--opponent", default="random", help="an agent's description (default: random)")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()

    os.environ["OMP_NUM_THREADS"] = "1"
    ray.init(address="local", include_dashboard=False, _node_ip_address="127.0.0.1", log_to_driver=False)
    register_env("togyzqumalaq", make_env)
    config = (
        PPOConfig()
        .environment("togyzqumalaq", env_config={"observation": "rules", "opponent": arguments.opponent})
        .env_runners(num_env_runners=0, num_envs_per_env_runner=8)
        .rl_module(rl_module_spec=RLModuleSpec(module_class=ActionMaskingTorchRLModule, model_config={"fcnet_hiddens": [256, 256]}))
        .training(train_batch_size_per_learner=arguments.batch, minibatch_size=256, num_epochs=8, gamma=1.0, lr=3e-4)
        .debugging(seed=arguments.seed)
    )
    algorithm = config.build_algo()
    for iteration in range(1, arguments.iterations + 1):
        result = algorithm.train()["env_runners"]
        print(f"{iteration:>4}: mean return {result.get('episode_return_mean', float('nan')):+.2f}", flush=True)
    algorithm.stop()
    ray.shutdown()


if __name__ == "__main__":
    main()
