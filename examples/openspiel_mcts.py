"""OpenSpiel's MCTS against its uniformly random bot, on the registered game.

python examples/openspiel_mcts.py --games 4 --simulations 100

Needs: pip install 'togyz[openspiel]'. Not with pyspiel.MCTSBot, the one in C++: it crashes on every game written in Python.
"""

from __future__ import annotations

import argparse

import numpy as np
import pyspiel
from open_spiel.python.algorithms import evaluate_bots, mcts
from open_spiel.python.bots import uniform_random

import togyz_env.openspiel  # noqa: F401 - registers the game


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", type=int, default=4, help="games, each side in turn (default: 4)")
    parser.add_argument("--simulations", type=int, default=100, help="simulations for each move (default: 100)")
    parser.add_argument("--plies", type=int, default=2000, help="ply limit (default: 2000)")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()

    game = pyspiel.load_game("python_togyzqumalaq", {"max_plies": arguments.plies})
    random = np.random.RandomState(arguments.seed)
    # A play-out ends after 40 plies as a draw: a whole game would take OpenSpiel some milliseconds.
    evaluator = mcts.RandomRolloutEvaluator(n_rollouts=1, random_state=random, max_length=40)
    total = 0.0
    for number in range(arguments.games):
        side = number % 2
        searcher = mcts.MCTSBot(game, uct_c=1.4, max_simulations=arguments.simulations, evaluator=evaluator, random_state=random)
        bots = [searcher, uniform_random.UniformRandomBot(1 - side, random)]
        state = game.new_initial_state()
        returns = evaluate_bots.evaluate_bots(state, bots if side == 0 else bots[::-1], random)
        total += returns[side]
        print(f"game {number + 1}: MCTS is {'white' if side == 0 else 'black'}, returns {returns[side]:+.0f}; {state}", flush=True)
    print(f"MCTS against random: {total:+.0f} in {arguments.games} games")


if __name__ == "__main__":
    main()
