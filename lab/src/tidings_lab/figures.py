"""Figures and tables from the newest raw results: ``python -m tidings_lab.figures``. Nothing is measured here."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from tidings_lab import results
from tidings_lab.datasets import REPOSITORY
from tidings_lab.soak_figure import draw_soak
from tidings_lab.style import FLOOR, INK, OTHERS, OURS, STYLE, pyplot
from tidings_lab.tables import write_page


def draw_all(folder: Path, docs: Path) -> list[Path]:
    """Draw whatever there are results for, and write the page with the tables."""
    images = docs / "images"
    images.mkdir(parents=True, exist_ok=True)
    spine, growth = results.newest(folder, "spine"), results.newest(folder, "growth")
    drawn = []
    if spine is not None:
        drawn.append(draw_spine(spine[1], images / "bench-spine.png"))
    if growth is not None:
        drawn.append(draw_growth(growth[1], images / "bench-growth.png"))
    if (soak := results.newest(folder, "soak")) is not None:
        drawn.append(draw_soak(soak[1], images / "bench-soak.png"))
    if (plans := results.newest(folder, "plans")) is not None:
        drawn.append(draw_cost(plans[1]["parts"]["plans"]["cost"], images / "bench-cost.png"))
    return [*drawn, write_page(folder, docs)]


def draw_cost(cost: dict[str, Any], path: Path) -> Path:
    """What matching a post costs over the distinct words a matcher holds, with the line LASP uses."""
    plt = pyplot()
    words = [point["words"] for point in cost["points"]]
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
        axes.plot(words, [point["best_ns"] for point in cost["points"]], "o", color=OURS, label="measured")
        ends = [0, max(words)]
        axes.plot(ends, [cost["base_ns"] + cost["each_ns"] * end for end in ends], color=INK, lw=1, label="fitted")
        axes.set(xlim=(0, None), ylim=(0, None))
        axes.set_xlabel("distinct words subscribed to", loc="left")
        axes.set_title("nanoseconds to match a post, one core", loc="left")
        axes.legend(frameon=False)
        figure.savefig(path, dpi=150)
        plt.close(figure)
    return path


def draw_spine(run: results.Record, path: Path) -> Path:
    """Bars of posts/s relative to the floor."""
    plt = pyplot()
    spine = run["parts"]["spine"]
    rows = list(reversed(spine["contenders"]))
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(9, 0.62 * len(rows) + 1.6), layout="constrained")
        for place, one in enumerate(rows):
            _bar(axes, place, one)
        axes.set_yticks(range(len(rows)), [one["label"] for one in rows])
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        longest = max(1.0, *(one["ratio_to_floor"] for one in rows))
        axes.set_xlim(0, longest * 1.32)
        axes.set_xticks([tick / 5 for tick in range(int(longest * 5) + 1)])
        axes.set_xlabel("share of the floor's posts/s (bar: median, dots: every repetition)", loc="left")
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


def _bar(axes: Any, place: int, one: dict[str, Any]) -> None:
    ours = one["name"].startswith("tidings")
    colour = FLOOR if one["name"] == "floor" else OURS if ours else OTHERS
    axes.barh(place, one["ratio_to_floor"], height=0.62, color=colour)
    if one["name"] != "floor":
        ratios = one["ratios_to_floor"]
        axes.scatter(ratios, [place] * len(ratios), s=12, color=INK, alpha=0.55, linewidths=0, zorder=3)
    spared = "" if one["starts_from"] == "text" else "\ngiven cleaned words"
    spread = max(one["ratio_to_floor"], *one["ratios_to_floor"])
    axes.text(
        spread + 0.015,
        place,
        f"{one['ratio_to_floor']:.2f}   {thousands(one['posts_per_second'])} posts/s{spared}",
        va="center",
        fontsize=10,
        weight="bold" if ours else "normal",
        linespacing=1.25,
    )


def draw_growth(run: results.Record, path: Path) -> Path:
    """posts/s and bytes a subscription against the number of subscriptions."""
    plt = pyplot()
    rows = run["parts"]["growth"]
    counts = [one["subscriptions"] for one in rows]
    with plt.rc_context(STYLE):
        figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
        speeds = [one["posts_per_second"] for one in rows]
        left.set_yscale("log")
        _line(left, counts, speeds, [thousands(speed) for speed in speeds])
        left.set_ylim(min(speeds) / 2.5, max(speeds) * 3)
        left.set_title("posts/s, one core, pre-tokenised", loc="left", fontsize=12)
        sizes = [one["bytes_per_subscription"] for one in rows]
        _line(right, counts, sizes, [f"{size:.0f}" for size in sizes])
        right.set_ylim(0, max(sizes) * 1.25)
        right.set_title("bytes a subscription, index and dictionary", loc="left", fontsize=12)
        figure.savefig(path, dpi=150)
        plt.close(figure)
    return path


def _line(axes: Any, counts: list[int], values: list[float], labels: list[str]) -> None:
    axes.plot(counts, values, "o-", color=OURS, linewidth=2, markersize=6)
    axes.set_xscale("log")
    axes.set_xlim(counts[0] / 2, counts[-1] * 5)
    axes.set_xticks(counts, [thousands(count) for count in counts])
    axes.minorticks_off()
    axes.set_xlabel("subscriptions")
    axes.grid(axis="y", color=FLOOR, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.yaxis.set_major_formatter(lambda value, _: thousands(value))
    for count, value, label in zip(counts, values, labels, strict=True):
        axes.annotate(label, (count, value), (6, 6), textcoords="offset points", fontsize=10)


def thousands(value: float) -> str:
    """A number as a person reads it: 950, 12 K, 0.34 M, 10 M."""
    if value >= 9.5e6:
        return f"{value / 1e6:.0f} M"
    if value >= 99_500 and value != 100_000:
        return f"{value / 1e6:.2g} M"
    if value == 100_000:
        return "100 K"
    return f"{value / 1e3:.2g} K" if value >= 1000 else f"{value:.0f}"


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else REPOSITORY / "lab" / "results"
    for written in draw_all(folder, REPOSITORY / "docs"):
        print(written)
