"""The figures for people and programs, and the machine that they were taken on."""

from __future__ import annotations

import dataclasses
import os
import platform
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from togyz_agents.benchmark.measuring import RATIO, SELFPLAY_LENGTH, Figure, Plan

CPU_FLAGS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16", "asimd", "bf16")
"""Those that decide how fast a network runs, as /proc/cpuinfo calls them."""
PACKAGES = ("togyz", "numpy", "numba", "torch", "gymnasium")


def machine() -> dict[str, Any]:
    """What the figures depend on: processor, cores and their load, capability, versions."""
    try:
        cpuinfo = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:  # not Linux
        cpuinfo = ""
    model = re.search(r"^model name\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    flags = re.search(r"^(?:flags|Features)\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    present = flags[1].split() if flags else []
    return {
        "cpu": model[1] if model else platform.processor() or platform.machine(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "capability": [flag for flag in CPU_FLAGS if flag in present],
        "torch capability": torch.backends.cpu.get_cpu_capability(),
        "torch threads": "one for each worker",
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "versions": {package: version(package) for package in PACKAGES},
    }


def machine_line(of: dict[str, Any]) -> str:
    """``machine()`` in one line for people."""
    versions = ", ".join(f"{name} {number}" for name, number in of["versions"].items())
    return (
        f"{of['cpu']}, {of['cores']} cores (load {of['load']} before), {' '.join(of['capability']) or 'no flags known'}, "
        f"torch {of['torch capability']} with threads: {of['torch threads']}; {of['system']}, Python {of['python']}, {versions}"
    )


def to_dict(figures: list[Figure], plan: Plan, of: dict[str, Any]) -> dict[str, Any]:
    """Everything as plain values for JSON."""
    return {
        "machine": of,
        "plan": dataclasses.asdict(plan),
        "figures": [dataclasses.asdict(figure) for figure in figures],
    }


def to_text(figures: list[Figure], plan: Plan) -> str:
    """The figures as a table for people."""
    rows = [("", "best", "median", "unit", "threads", "first call")]
    for before, figure in zip([figures[0], *figures], figures):
        if before.group != figure.group:
            rows.append(("",) * 6)
        digits = ".2f" if figure.unit == RATIO else ",.0f"
        first = f"{figure.first:.1f} s" if figure.first else ""
        rows.append(
            (figure.what, format(figure.best, digits), format(figure.median, digits), figure.unit, str(figure.threads or ""), first)
        )
    widths = [max(len(row[column]) for row in rows) for column in range(6)]
    lines = [
        "  ".join(
            cell.ljust(width) if column in (0, 3) else cell.rjust(width) for column, (cell, width) in enumerate(zip(row, widths))
        )
        for row in rows
    ]
    lengths = f"{plan.seconds:g} s (self-play {SELFPLAY_LENGTH * plan.seconds:g} s)"
    lines += ["", f"{plan.repeats} repeats of {lengths}; the first call compiles or loads what is not there yet"]
    return "\n".join(line.rstrip() for line in lines)
