"""Speed on this machine, from random moves to training: each figure the best and the median of several short repeats.

What is compiled or loaded at the first call is timed apart. The repeats of a group are interleaved (every figure once, then every
figure again), so that a machine that slows down for a while slows all of them, and ratios of figures of one group can be trusted
when the figures cannot.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from togyz_agents.benchmark.learning import evaluator, sample, selfplay, training, tree
from togyz_agents.benchmark.measuring import RATIO, Figure, Plan, Task, repeatedly
from togyz_agents.benchmark.playing import environment, rules
from togyz_agents.benchmark.report import machine, machine_line, to_dict, to_text
from togyz_agents.benchmark.thinking import alphabeta, single
from togyz_agents.evaluator import one_torch_thread
from togyz_env.errors import ConfigError

log = logging.getLogger(__name__)

GROUPS: dict[str, Callable[[Plan], list[Figure]]] = {
    "rules": rules,
    "environment": environment,
    "alphabeta": alphabeta,
    "single": single,
    "tree": tree,
    "evaluator": evaluator,
    "selfplay": selfplay,
    "training": training,
    "sample": sample,
}


def measure(plan: Plan | None = None, only: Sequence[str] = ()) -> list[Figure]:
    """Measure the groups ``only`` (all by default) one after the other, with one torch thread for each worker.

    Raises:
        ConfigError: a group that does not exist.
    """
    for name in only:
        if name not in GROUPS:
            raise ConfigError(f"benchmark: {name!r} is not one of {', '.join(GROUPS)}")
    figures: list[Figure] = []
    with one_torch_thread():
        for name, group in GROUPS.items():
            if not only or name in only:
                log.info("measuring: %s", name)
                figures += group(plan or Plan())
    return figures


__all__ = ["GROUPS", "RATIO", "Figure", "Plan", "Task", "machine", "machine_line", "measure", "repeatedly", "to_dict", "to_text"]
