"""Timing on a shared machine: wall and CPU time, contenders in turns, every repetition stored."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Times:
    """Wall and CPU seconds per repetition."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    @property
    def best(self) -> float:
        """Return the fastest repetition; the slower ones were disturbed."""
        return min(self.wall)

    @property
    def best_cpu(self) -> float:
        return min(self.cpu)

    def to_dict(self) -> dict[str, Any]:
        return {"seconds": self.wall, "cpu_seconds": self.cpu}

    def add(self, action: Callable[[], object]) -> None:
        cpu, wall = time.process_time(), time.perf_counter()
        action()
        self.wall.append(time.perf_counter() - wall)
        self.cpu.append(time.process_time() - cpu)


def tree_cpu_seconds() -> float | None:
    """Return the CPU time of this process and its descendants (JVM, Spark's workers), or None without psutil."""
    try:
        import psutil
    except ImportError:
        return None
    total = 0.0
    root = psutil.Process()
    for process in (root, *root.children(recursive=True)):
        try:
            total += sum(process.cpu_times()[:4])  # user and system, also of terminated children
        except psutil.Error:
            continue
    return total


def time_in_turns(actions: Mapping[str, Callable[[], object]], repetitions: int) -> dict[str, Times]:
    """Run each action once as a warm-up, then time all of them in turns."""
    times = {name: Times() for name in actions}
    for action in actions.values():
        action()
    for _ in range(repetitions):
        for name, action in actions.items():
            times[name].add(action)
    return times


def time_repetitions(action: Callable[[], object], repetitions: int) -> Times:
    """Time repetitions of an action without a warm-up."""
    times = Times()
    for _ in range(repetitions):
        times.add(action)
    return times
