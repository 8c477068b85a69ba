"""The CPU time of a process and its descendants, by role: the commands of Tidings, their JVMs, their Python workers."""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_COMMAND, _COMMANDS = "tidings.cli.main", ("run", "serve", "crawl", "webhooks")


@dataclass(frozen=True, slots=True)
class _Process:
    parent: int
    cpu_s: float
    words: tuple[str, ...]


@dataclass
class ProcessTree:
    """The processes below a root. Those that have ended keep the CPU time that they had when last seen."""

    root: int
    _seen: dict[int, tuple[str, float]] = field(default_factory=dict)

    def cpu_s(self) -> dict[str, float]:
        """Return the CPU seconds by role, such as `run`, `run jvm`, `run workers`."""
        processes = _read_processes()
        for pid, process in processes.items():
            if (role := self._role(pid, processes)) is not None:
                self._seen[pid] = role, process.cpu_s
        totals: dict[str, float] = defaultdict(float)
        for role, cpu_s in self._seen.values():
            totals[role] += cpu_s
        return {role: round(cpu_s, 2) for role, cpu_s in sorted(totals.items())}

    def _role(self, pid: int, processes: dict[int, _Process]) -> str | None:
        """Return the role of a descendant of the root; None for other processes."""
        kind, command, current = "", "", pid
        while current in processes:
            words = processes[current].words
            if not kind and words and words[0].endswith("java"):
                kind = " jvm"
            if not kind and any(word.startswith(("pyspark.", "tidings.spark.daemon")) for word in words):
                kind = " workers"
            if not command and _COMMAND in words:
                command = next((word for word in words if word in _COMMANDS), "")
            if current == self.root:
                return f"{command}{kind}"
            current = processes[current].parent
        return None


def _read_processes() -> dict[int, _Process]:
    processes = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
            words = (folder / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
        except OSError:  # it has just ended
            continue
        cpu_s = (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND
        processes[int(folder.name)] = _Process(int(fields[1]), cpu_s, tuple(words))
    return processes
