"""`python -m tidings_lab.figures`: draw the figures and write the page from the newest stored benchmark results."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tidings_lab import REPOSITORY
from tidings_lab.results import find_newest
from tidings_lab.soak_figure import draw_soak
from tidings_lab.style import FLOOR, INK, OTHERS, OURS, STYLE, load_pyplot
from tidings_lab.tables import write_page


def draw_all(folder: Path, docs: Path) -> list[Path]:
    """Draw a figure for every benchmark that has a result, and write the page. Returns the paths."""
    images = docs / "images"
    images.mkdir(parents=True, exist_ok=True)
    drawn = []
    for benchmark, (name, draw) in _FIGURES.items():
        if (newest := find_newest(folder, "benchmark", benchmark)) is not None:
            drawn.append(draw(newest[1]["measured"], images / name))
    return [*drawn, write_page(folder, docs)]


def draw_cost(plans: dict[str, Any], path: Path) -> Path:
    """Draw the time to match a post over the distinct terms of a matcher, with the line that LASP uses."""
    plt, cost = load_pyplot(), plans["cost"]
    terms = [point["words"] for point in cost["points"]]
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
        axes.plot(terms, [point["best_ns"] for point in cost["points"]], "o", color=OURS, label="measured")
        ends = [0, max(terms)]
        axes.plot(ends, [cost["base_ns"] + cost["per_term_ns"] * end for end in ends], color=INK, lw=1, label="fit")
        axes.set(xlim=(0, None), ylim=(0, None))
        axes.set_xlabel("distinct subscribed terms", loc="left")
        axes.set_title("time to match a post on one core, ns", loc="left")
        axes.legend(frameon=False)
        figure.savefig(path, dpi=150)
        plt.close(figure)
    return path


def draw_spine(spine: dict[str, Any], path: Path) -> Path:
    """Draw bars of posts/s relative to the floor."""
    plt = load_pyplot()
    rows = list(reversed(spine["contenders"]))
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(9, 0.62 * len(rows) + 1.6), layout="constrained")
        for place, contender in enumerate(rows):
            _draw_bar(axes, place, contender)
        axes.set_yticks(range(len(rows)), [contender["label"] for contender in rows])
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        longest = max(1.0, *(contender["ratio_to_floor"] for contender in rows))
        axes.set_xlim(0, longest * 1.32)
        axes.set_xticks([tick / 5 for tick in range(int(longest * 5) + 1)])
        axes.set_xlabel("posts/s relative to the floor (bar: median, dots: repetitions)", loc="left")
        subscriptions = spine["subscriptions"]["subscriptions"]
        axes.set_title(
            f"{spine['posts']:,} posts against {subscriptions:,} subscriptions on {spine['cores']} cores",
            loc="left",
            fontsize=12.5,
            pad=12,
        )
        figure.savefig(path, dpi=150)
        plt.close(figure)
    return path


def _draw_bar(axes: Any, place: int, contender: dict[str, Any]) -> None:
    ours = contender["name"].startswith("tidings")
    colour = FLOOR if contender["name"] == "floor" else OURS if ours else OTHERS
    axes.barh(place, contender["ratio_to_floor"], height=0.62, color=colour)
    if contender["name"] != "floor":
        ratios = contender["ratios_to_floor"]
        axes.scatter(ratios, [place] * len(ratios), s=12, color=INK, alpha=0.55, linewidths=0, zorder=3)
    input_note = "" if contender["starts_from"] == "text" else "\nstarts from term ids"
    spread = max(contender["ratio_to_floor"], *contender["ratios_to_floor"])
    axes.text(
        spread + 0.015,
        place,
        f"{contender['ratio_to_floor']:.2f}   {format_short(contender['posts_per_second'])} posts/s{input_note}",
        va="center",
        fontsize=10,
        weight="bold" if ours else "normal",
        linespacing=1.25,
    )


def draw_growth(rows: list[dict[str, Any]], path: Path) -> Path:
    """Draw posts/s and bytes per subscription over the number of subscriptions."""
    plt = load_pyplot()
    counts = [row["subscriptions"] for row in rows]
    with plt.rc_context(STYLE):
        figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
        speeds = [row["posts_per_second"] for row in rows]
        left.set_yscale("log")
        _draw_line(left, counts, speeds, [format_short(speed) for speed in speeds])
        left.set_ylim(min(speeds) / 2.5, max(speeds) * 3)
        left.set_title("posts/s, one core, analyzed posts", loc="left", fontsize=12)
        sizes = [row["bytes_per_subscription"] for row in rows]
        _draw_line(right, counts, sizes, [f"{size:.0f}" for size in sizes])
        right.set_ylim(0, max(sizes) * 1.25)
        right.set_title("bytes per subscription, index and vocabulary", loc="left", fontsize=12)
        figure.savefig(path, dpi=150)
        plt.close(figure)
    return path


def _draw_line(axes: Any, counts: list[int], values: list[float], labels: list[str]) -> None:
    axes.plot(counts, values, "o-", color=OURS, linewidth=2, markersize=6)
    axes.set_xscale("log")
    axes.set_xlim(counts[0] / 2, counts[-1] * 5)
    axes.set_xticks(counts, [format_short(count) for count in counts])
    axes.minorticks_off()
    axes.set_xlabel("subscriptions")
    axes.grid(axis="y", color=FLOOR, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.yaxis.set_major_formatter(lambda value, _: format_short(value))
    for count, value, label in zip(counts, values, labels, strict=True):
        axes.annotate(label, (count, value), (6, 6), textcoords="offset points", fontsize=10)


def format_short(value: float) -> str:
    """Return a number in short form: 950, 12 K, 0.34 M, 10 M."""
    if value >= 9.5e6:
        return f"{value / 1e6:.0f} M"
    if value >= 99_500 and value != 100_000:
        return f"{value / 1e6:.2g} M"
    if value == 100_000:
        return "100 K"
    return f"{value / 1e3:.2g} K" if value >= 1000 else f"{value:.0f}"


_FIGURES: Mapping[str, tuple[str, Callable[[Any, Path], Path]]] = {
    "spine": ("bench-spine.png", draw_spine),
    "growth": ("bench-growth.png", draw_growth),
    "soak": ("bench-soak.png", draw_soak),
    "plans": ("bench-cost.png", draw_cost),
}


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else REPOSITORY / "lab" / "results"
    for written in draw_all(folder, REPOSITORY / "docs"):
        print(written)
