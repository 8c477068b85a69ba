"""Figure of a soak test: memory, segments, batch time, latency, disk and CPU over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle, pairwise
from pathlib import Path
from typing import Any

from tidings_lab.style import FLOOR, INK, OTHERS, OURS, QUIET, STYLE, load_pyplot

Line = tuple[str, Sequence[float | None]]
_COLOURS = (OURS, "#d9480f", QUIET, "#862e9c", INK)
_MEMORY = {"jvm": "JVM", "workers": "workers", "driver": "driver", "serve": "service"}


def draw_soak(soak: Mapping[str, Any], path: Path) -> Path:
    """Draw one panel per quantity over the minutes of the run."""
    plt = load_pyplot()
    seen = soak["samples"]
    minutes = [at / 60 for at in seen["at_s"]]
    with plt.rc_context({**STYLE, "font.size": 10}):
        figure, axes = plt.subplots(3, 2, figsize=(11, 8.6), sharex=True, layout="constrained")
        for panel, (title, lines) in zip(axes.flat, panel_lines(seen).items(), strict=True):
            _draw_panel(panel, title, minutes, lines)
        for panel in axes[-1]:
            panel.set_xlabel("minutes")
        figure.suptitle(_format_title(soak), x=0.01, ha="left", fontsize=12.5)
        figure.savefig(path, dpi=150)
        plt.close(figure)
    return path


def panel_lines(seen: Mapping[str, Any]) -> dict[str, list[Line]]:
    """Return the lines of each panel by its title."""
    disk = seen["disk_mb"]
    return {
        "private memory, MB": [
            (label, seen[name]) for role, label in _MEMORY.items() if (name := f"{role}_private_mb") in seen
        ],
        "index segments": [("segments", seen["segments"])],
        "batch time, ms": [("slowest", seen["batch_ms_max"]), ("median", seen["batch_ms"])],
        "latency from arrival to stored match, ms": [
            ("longest", seen["latency_ms_max"]),
            ("median", seen["latency_ms"]),
        ],
        "disk, MB": [(name, disk[name]) for name in disk if max(disk[name]) >= 1],
        "CPU cores in use": [("cores", _rate(seen["at_s"], seen["cpu_s"]))],
    }


def _rate(at_s: Sequence[float], total: Sequence[float]) -> list[float | None]:
    """Return the growth of a total per second; None first, and where it shrinks because a process ended."""
    steps = zip(pairwise(at_s), pairwise(total), strict=True)
    return [None, *((d - c) / (b - a) if d >= c and b > a else None for (a, b), (c, d) in steps)]


def _draw_panel(axes: Any, title: str, minutes: Sequence[float], lines: Sequence[Line]) -> None:
    axes.set_title(title, loc="left", fontsize=11)
    colours = cycle(_COLOURS)
    for name, values in lines:
        is_pale = name in ("slowest", "longest")
        colour = OTHERS if is_pale else next(colours)
        known = [float("nan") if value is None else value for value in values]
        axes.plot(minutes, known, color=colour, linewidth=0.7 if is_pale else 1.3, label=name)
    if len(lines) > 1:
        above = {"loc": "lower right", "bbox_to_anchor": (1, 1), "borderaxespad": 0}
        axes.legend(frameon=False, fontsize=9, ncols=len(lines), handlelength=1.2, columnspacing=1, **above)
    axes.set_ylim(bottom=0)
    axes.margins(x=0.01)
    axes.grid(axis="y", color=FLOOR, linewidth=0.6)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")


def _format_title(soak: Mapping[str, Any]) -> str:
    return (
        f"{soak['minutes']:g} minutes, {soak['posts_per_second']:,} posts/s, {soak['subscriptions']:,} subscriptions, "
        f"{soak['changed_per_minute']:,} replaced per minute"
    )
