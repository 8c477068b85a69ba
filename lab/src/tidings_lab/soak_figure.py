"""The soak drawn: memory, segments, batch time, latency, disk and processor over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle, pairwise
from pathlib import Path
from typing import Any

from tidings_lab.results import Record
from tidings_lab.style import FLOOR, INK, OTHERS, OURS, QUIET, STYLE, pyplot

Line = tuple[str, Sequence[float | None]]
_COLOURS = (OURS, "#d9480f", QUIET, "#862e9c", INK)
_MEMORY = {"jvm_mb": "JVM", "workers_mb": "Python workers", "driver_mb": "driver (Python)"}


def draw_soak(run: Record, path: Path) -> Path:
    """Small multiples over the minutes of the run."""
    plt = pyplot()
    soak = run["parts"]["soak"]
    seen = soak["samples"]
    minutes = [at / 60 for at in seen["at_s"]]
    with plt.rc_context({**STYLE, "font.size": 10}):
        figure, axes = plt.subplots(3, 2, figsize=(11, 8.6), sharex=True, layout="constrained")
        for panel, (title, lines) in zip(axes.flat, panels(seen).items(), strict=True):
            _draw(panel, title, minutes, lines)
        for panel in axes[-1]:
            panel.set_xlabel("minutes")
        figure.suptitle(_title(soak), x=0.01, ha="left", fontsize=12.5)
        figure.savefig(path, dpi=150)
        plt.close(figure)
    return path


def panels(seen: Mapping[str, Any]) -> dict[str, list[Line]]:
    """What is drawn into each panel."""
    disk = seen["disk_mb"]
    return {
        "resident memory, MB": [(label, seen[name]) for name, label in _MEMORY.items()],
        "segments of the index": [("segments", seen["segments"])],
        "batch time, ms": [("slowest", seen["batch_ms_most"]), ("median", seen["batch_ms"])],
        "from arrival to stored match, ms": [("longest", seen["latency_ms_most"]), ("median", seen["latency_ms"])],
        "disk, MB": [(name, disk[name]) for name in disk if max(disk[name]) >= 1],
        "processor cores in use": [("cores", _rate(seen["at_s"], seen["cpu_s"]))],
    }


def _rate(at_s: Sequence[float], total: Sequence[float]) -> list[float | None]:
    """How fast a total grows; the first has nothing before it, and what shrinks (a process ended) is not told."""
    steps = zip(pairwise(at_s), pairwise(total), strict=True)
    return [None, *((d - c) / (b - a) if d >= c and b > a else None for (a, b), (c, d) in steps)]


def _draw(axes: Any, title: str, minutes: Sequence[float], lines: Sequence[Line]) -> None:
    axes.set_title(title, loc="left", fontsize=11)
    colours = cycle(_COLOURS)
    for name, values in lines:
        pale = name in ("slowest", "longest")
        colour = OTHERS if pale else next(colours)
        known = [float("nan") if value is None else value for value in values]
        axes.plot(minutes, known, color=colour, linewidth=0.7 if pale else 1.3, label=name)
    if len(lines) > 1:
        axes.legend(frameon=False, fontsize=9, ncols=3, loc="best", handlelength=1.2)
    axes.set_ylim(bottom=0)
    axes.margins(x=0.01)
    axes.grid(axis="y", color=FLOOR, linewidth=0.6)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")


def _title(soak: Mapping[str, Any]) -> str:
    return (
        f"{soak['minutes']:g} minutes, {soak['posts_per_second']:,} posts/s, {soak['subscriptions']:,} subscriptions, "
        f"{soak['changed_a_minute']:,} of them replaced every minute"
    )
