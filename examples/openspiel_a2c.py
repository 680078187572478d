"""OpenSpiel's advantage actor-critic in PyTorch against a random player, through rl_environment.

python examples/openspiel_a2c.py --episodes 2000

Needs: pip install 'togyz[openspiel]'
"""

from __future__ import annotations

import argparse

import numpy as np
import torch
from open_spiel.python import rl_environment
from open_spiel.python.algorithms import random_agent
from open_spiel.python.pytorch import policy_gradient

import togyz_env.openspiel  # noqa: F401 - registers the game


def play(env: rl_environment.Environment, agents: list[object], learn: bool) -> list[float]:
    """Play a game and return what each player gets."""
    time_step = env.reset()
    while not time_step.last():
        agent = agents[time_step.observations["current_player"]]
        time_step = env.step([agent.step(time_step, is_evaluation=not learn).action])
    for agent in agents:
        agent.step(time_step, is_evaluation=not learn)
    return time_step.rewards


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=2_000, help="games to learn from (default: 2000)")
    parser.add_argument("--games", type=int, default=100, help="evaluation games at the end (default: 100)")
    parser.add_argument("--plies", type=int, default=300, help="ply limit (default: 300)")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(arguments.seed)
    np.random.seed(arguments.seed)  # noqa: NPY002 - the agents of OpenSpiel draw from it
    env = rl_environment.Environment("python_togyzqumalaq", max_plies=arguments.plies)
    size, actions = env.observation_spec()["info_state"][0], env.action_spec()["num_actions"]
    learner = policy_gradient.PolicyGradient(
        player_id=0,
        info_state_size=size,
        num_actions=actions,
        loss_str="a2c",
        hidden_layers_sizes=(128, 128),
        batch_size=512,
        critic_learning_rate=1e-3,
        pi_learning_rate=1e-3,
        optimizer_str="adam",
    )
    agents = [learner, random_agent.RandomAgent(player_id=1, num_actions=actions)]
    for episode in range(1, arguments.episodes + 1):
        play(env, agents, learn=True)
        if episode % max(1, arguments.episodes // 10) == 0:
            print(f"{episode} games", flush=True)
    results = [play(env, agents, learn=False)[0] for _ in range(arguments.games)]
    print(f"The learner as white against random: {sum(result > 0 for result in results)} of {arguments.games} games won")


if __name__ == "__main__":
    main()
