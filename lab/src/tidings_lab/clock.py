"""Timing on a machine that others use too: both clocks, turns taken, every repetition kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Times:
    """Seconds by the wall and of the processor, one of each a repetition."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    @property
    def best(self) -> float:
        """The fastest repetition: whatever is slower was disturbed."""
        return min(self.wall)

    @property
    def best_cpu(self) -> float:
        return min(self.cpu)

    def described(self) -> dict[str, Any]:
        return {"seconds": self.wall, "cpu_seconds": self.cpu}

    def add(self, action: Callable[[], object]) -> None:
        cpu, wall = time.process_time(), time.perf_counter()
        action()
        self.wall.append(time.perf_counter() - wall)
        self.cpu.append(time.process_time() - cpu)


def tree_cpu_seconds() -> float | None:
    """Processor time of this process and all it started (the JVM, Spark's workers); None where nobody can tell."""
    try:
        import psutil
    except ImportError:
        return None
    total = 0.0
    me = psutil.Process()
    for process in (me, *me.children(recursive=True)):
        try:
            total += sum(process.cpu_times()[:4])  # user, system, and of children that ended
        except psutil.Error:
            continue
    return total


def take_turns(actions: Mapping[str, Callable[[], object]], repetitions: int) -> dict[str, Times]:
    """Each action once to warm up, then all of them in turn, again and again."""
    times = {name: Times() for name in actions}
    for action in actions.values():
        action()
    for _ in range(repetitions):
        for name, action in actions.items():
            times[name].add(action)
    return times


def timed(action: Callable[[], object], repetitions: int) -> Times:
    """Repetitions of one action, without a warm-up."""
    times = Times()
    for _ in range(repetitions):
        times.add(action)
    return times
