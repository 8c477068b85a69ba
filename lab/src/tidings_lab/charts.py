"""Charts of results: lines with error bars, a line for each series, drawn as an experiment's file asks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tidings_lab.claims import Row, Rows, distinct_points, select_rows
from tidings_lab.experiment import Figure
from tidings_lab.style import QUIET, STYLE, load_pyplot

_PANEL = (4.9, 3.5)  # inches
_MANY = 40  # points of a line that need no marks
# Ours stands out; those that lose clearly keep to the background. The same name visited_at the same in every figure.
_LOOKS: Mapping[str, tuple[str, str]] = {
    "salb+": ("#0b7285", "o"),
    "salb": ("#e8590c", "s"),
    "hash": ("#343a40", "x"),
    "gc": ("#ced4da", "v"),
    "gfc": ("#adb5bd", "^"),
    "gfcl": ("#7048e8", "D"),
    "gnfcl": ("#d6336c", "P"),
    "lasp": ("#e8590c", "s"),
    "random": ("#343a40", "x"),
    "rarest": ("#0b7285", "o"),
    "subscription": ("#0b7285", "o"),
    "consensus": ("#e8590c", "s"),
    "fresh": ("#2f9e44", "^"),
    "oracle": ("#adb5bd", "^"),
    "oracle by levels": ("#7048e8", "D"),
    "off": ("#343a40", ""),
    "best": ("#0b7285", "o"),
    "replicated": ("#7048e8", "D"),
    "partitioned": ("#2f9e44", "^"),
    "broadcast": ("#e8590c", "s"),
    "the talk": ("#343a40", "x"),
    "Tidings": ("#0b7285", "o"),
    "Tidings, broadcast": ("#e8590c", "s"),
    "near": ("#0b7285", "o"),
    "near, exact": ("#2f9e44", "^"),
    "scheduler": ("#0b7285", "o"),
    "fixed": ("#343a40", "x"),
    "ds+scl": ("#0b7285", "o"),
    "ds": ("#e8590c", "s"),
    "scc": ("#7048e8", "D"),
    "scl": ("#d6336c", "P"),
    "sci": ("#adb5bd", "^"),
    "measured": ("#0b7285", "o"),
    "expected, every tag set new pairs": ("#e8590c", "s"),
    "expected, pairs as counted": ("#7048e8", "D"),
    "expected at random": ("#343a40", "x"),
    "fit_plan": ("#343a40", ""),
    "hybrid": ("#0b7285", "o"),
    "again": ("#66d9e8", "o"),
    "kdt": ("#f08c00", "*"),
    "kdtree": ("#e8590c", "s"),
    "grid": ("#7048e8", "D"),
    "rtree": ("#2f9e44", "^"),
    "metric": ("#d6336c", "P"),
    "hypergraph": ("#343a40", "x"),
    "frequency": ("#adb5bd", "v"),
}
_OTHERS = ("#0b7285", "#e8590c", "#7048e8", "#2f9e44", "#d6336c", "#343a40")
_LABELS: Mapping[str, str] = {
    "throughput": "posts a second",
    "spread": "matchers a post",
    "imbalance": "most loaded / average",
    "accuracy": "share of the matches found",
    "shed": "share of the load shed",
    "seconds": "seconds to learn",
    "learned": "posts learned from",
    "subscriptions": "subscriptions",
    "weeks": "weeks since learning",
    "limit": "matchers a post may go to",
    "second": "seconds",
    "rate": "posts a second",
    "level": "level",
    "delay": "seconds a post waits",
    "words": "distinct words a matcher holds",
    "ns": "ns a post",
    "nodes": "machines",
    "partitions": "partitions",
    "partitioners": "partitioners",
    "threshold": "threshold",
    "minutes": "minutes",
    "communication": "calculators told of a post",
    "gini": "Gini coefficient",
    "max_load": "share of the most loaded",
    "error": "mean error",
    "coverage": "share of the tag sets",
    "largest_tags": "share of the tags",
    "largest_load": "share of the posts",
    "np": "n·p",
    "latency_ms": "milliseconds",
    "worker_bytes": "bytes",
    "dispatcher_bytes": "bytes",
    "workers": "workers",
    "round": "round",
}


def draw_figure(figure: Figure, rows: Rows, folder: Path) -> Path | None:
    """Draw the panels there are rows for, side by side; None when there is nothing to draw."""
    drawable = [(panel, found) for panel in figure.panels if (found := _chosen(panel, rows))]
    if not drawable:
        return None
    plt, path = load_pyplot(), folder / f"{figure.name}.png"
    with plt.rc_context({**STYLE, "axes.grid": True, "grid.color": "#e9ecef", "grid.linewidth": 0.8}):
        size = (_PANEL[0] * len(drawable) + 1.1, _PANEL[1])
        canvas, axes = plt.subplots(1, len(drawable), figsize=size, layout="constrained", squeeze=False)
        for place, (panel, found) in zip(axes[0], drawable, strict=True):
            draw_panel(place, panel, found)
        handles = {
            label: line for place in axes[0] for line, label in zip(*place.get_legend_handles_labels(), strict=True)
        }
        if len(handles) > 1:
            canvas.legend(handles.values(), handles, loc="outside right upper", frameon=False, fontsize=10)
        folder.mkdir(parents=True, exist_ok=True)
        canvas.savefig(path, dpi=130)
        plt.close(canvas)
    return path


def _chosen(panel: Mapping[str, Any], rows: Rows) -> list[Row]:
    chosen = select_rows(rows, panel.get("where", {}))
    return [row for row in chosen if row.get(panel["x"]) is not None and row.get(panel["y"]) is not None]


def draw_panel(axes: Any, panel: Mapping[str, Any], rows: Rows) -> None:
    """One chart: the mean of each series at each place, with the standard deviation where there are several rows."""
    if panel.get("bars"):
        _bars(axes, panel, rows)
        return
    for number, name in enumerate(_series(panel, rows)):
        mine = select_rows(rows, {panel["series"]: name}) if name != "" else list(rows)
        places, heights, errors = _line(panel, mine, rows)
        colour, marker = _look(name, number)
        many = len(places) > _MANY
        width = 1.0 if many else 2.2 if name == "salb+" else 1.5
        dotted = bool(panel.get("dots")) and name != "fit_plan"
        mark = "" if many and not dotted else marker
        style = {"color": colour, "marker": mark, "ms": 5, "lw": width, "capsize": 2.5}
        bars = errors if any(errors) else None
        shape = {"ls": "none"} if dotted else {}
        axes.errorbar(places, heights, yerr=bars, label=_called(panel, name), elinewidth=0.9, **style, **shape)
        if "marks" in panel:  # where something happened
            happened = [row[panel["x"]] for row in mine if row.get(panel["marks"])]
            axes.vlines(happened, 0, max(heights, default=1), color=QUIET, lw=0.5, zorder=0)
    _scales(axes, panel, rows)
    relative = f", {panel['relative_to']} = 1" if "relative_to" in panel else ""
    axes.set_ylabel(panel.get("ylabel", _LABELS.get(panel["y"], panel["y"])) + relative)
    axes.set_xlabel(panel.get("xlabel", _LABELS.get(panel["x"], panel["x"])))
    axes.set_title(panel.get("title", ""), loc="left", fontsize=11)
    axes.tick_params(color=QUIET)


def _series(panel: Mapping[str, Any], rows: Rows) -> list[Any]:
    """The series of a panel in the order of `_LOOKS`; a nameless one where it has none."""
    names = [value for ((_, value),) in distinct_points(rows, [panel["series"]])] if "series" in panel else [""]
    order = {name: place for place, name in enumerate(_LOOKS)}
    return sorted(names, key=lambda one: order.get(str(one), 99))


def _look(name: object, number: int) -> tuple[str, str]:
    return _LOOKS.get(str(name), (_OTHERS[number % len(_OTHERS)], "o"))


def _called(panel: Mapping[str, Any], name: object) -> str:
    called: str = panel.get("names", {}).get(str(name), str(name))
    return called


def _bars(axes: Any, panel: Mapping[str, Any], rows: Rows) -> None:
    """A bar for each value of x, in the order of the rows: with its height above it, or one for each series."""
    names = list(dict.fromkeys(row[panel["x"]] for row in rows))
    series = _series(panel, rows)
    width = 0.8 / len(series) if len(series) > 1 else 0.6
    for number, one in enumerate(series):
        mine = select_rows(rows, {panel["series"]: one}) if one != "" else list(rows)
        heights = [float(np.mean([row[panel["y"]] for row in select_rows(mine, {panel["x"]: name})])) for name in names]
        places = np.arange(len(names)) + (number - (len(series) - 1) / 2) * width
        drawn = axes.bar(places, heights, color=_look(one, number)[0], width=width, label=_called(panel, one))
        if len(series) == 1:
            labels = [f"{height:,.0f}" if height >= 1000 else f"{height:.3g}" for height in heights]
            axes.bar_label(drawn, labels, padding=2, fontsize=9)
    axes.set_xticks(range(len(names)), [str(name) for name in names])
    if panel.get("yscale") != "log" and max(axes.get_ylim()) >= 10_000:
        axes.yaxis.set_major_formatter(lambda value, _: _short(value))
    axes.set_axisbelow(True)
    if panel.get("yscale") == "log":
        axes.set_yscale("log")
    axes.margins(y=0.15)
    axes.set_ylabel(panel.get("ylabel", _LABELS.get(panel["y"], panel["y"])))
    axes.set_title(panel.get("title", ""), loc="left", fontsize=11)
    axes.tick_params(axis="x", color=QUIET, labelrotation=20 if len(names) > 4 else 0)


def _line(panel: Mapping[str, Any], mine: Rows, all_rows: Rows) -> tuple[list[float], list[float], list[float]]:
    """Where a series goes: places, means, deviations."""
    places, heights, errors = [], [], []
    by = panel.get("by", panel["x"])
    for point in distinct_points(mine, [by]):
        here = select_rows(mine, dict(point))
        values = [row[panel["y"]] / _unit(panel, row, all_rows) for row in here]
        places.append(float(np.mean([row[panel["x"]] for row in here])))
        heights.append(float(np.mean(values)))
        errors.append(float(np.std(values)) if len(values) > 1 else 0.0)
    order = np.argsort(places, kind="stable").tolist()
    return [places[at] for at in order], [heights[at] for at in order], [errors[at] for at in order]


def _unit(panel: Mapping[str, Any], row: Row, rows: Rows) -> float:
    """What counts as 1: the value of the series that others are compared with, at the same place and fold."""
    if "relative_to" not in panel:
        return 1.0
    same = {name: row[name] for name in (panel["x"], "fold") if name in row}
    value: float = select_rows(rows, {**same, panel["series"]: panel["relative_to"]})[0][panel["y"]]
    return value


def _scales(axes: Any, panel: Mapping[str, Any], rows: Rows) -> None:
    if panel.get("xscale") == "log2":
        ticks: Sequence[Any] = [value for ((_, value),) in distinct_points(rows, [panel["x"]])]
        axes.set_xscale("log", base=2)
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.minorticks_off()
    elif panel.get("xscale") == "log":
        axes.set_xscale("log")
    elif panel.get("xscale") == "counted":
        axes.set_xticks([value for ((_, value),) in distinct_points(rows, [panel["x"]])])
    elif max(abs(edge) for edge in axes.get_xlim()) >= 10_000:
        axes.xaxis.set_major_formatter(lambda value, _: _short(value))
    if panel.get("yscale") == "log":
        axes.set_yscale("log")
    else:
        bottom, (low, high) = panel.get("bottom", 0), axes.get_ylim()
        is_flat = high - low < 0.2 * (high - bottom)  # then its own margin is next to nothing, and markers are cut off
        axes.set_ylim(bottom, high + 0.05 * (high - bottom) * is_flat)
        if max(abs(edge) for edge in axes.get_ylim()) >= 10_000:
            axes.yaxis.set_major_formatter(lambda value, _: _short(value))


def _short(value: float) -> str:
    """A large number as people report it."""
    return f"{value / 1e6:g} M" if abs(value) >= 1e6 else f"{value / 1e3:g} K" if value else "0"
