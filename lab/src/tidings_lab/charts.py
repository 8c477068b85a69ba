"""Charts of results as described in the files of experiments: lines with error bars, or bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tidings_lab.claims import Row, Rows, distinct_points, select_rows
from tidings_lab.experiment import Figure
from tidings_lab.style import QUIET, STYLE, load_pyplot

_PANEL_INCHES = (4.9, 3.5)
_MAX_UPRIGHT_LABELS = 4  # of groups of bars
_MAX_MARKED_POINTS = 40  # a line with more points has no markers
# Colour and marker of a series; the same in every figure. Ours stands out, clear losers are grey.
_STYLES: Mapping[str, tuple[str, str]] = {
    "salb+": ("#0b7285", "o"),
    "salb+ unweighted": ("#66d9e8", "o"),
    "salb": ("#e8590c", "s"),
    "hash": ("#343a40", "x"),
    "gc": ("#ced4da", "v"),
    "gfc": ("#adb5bd", "^"),
    "gfcl": ("#7048e8", "D"),
    "gnfcl": ("#d6336c", "P"),
    "lasp": ("#e8590c", "s"),
    "random": ("#343a40", "x"),
    "anchor": ("#0b7285", "o"),
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
    "fitted": ("#343a40", ""),
    "hybrid": ("#0b7285", "o"),
    "again": ("#66d9e8", "o"),
    "kdt": ("#f08c00", "*"),
    "kdtree": ("#e8590c", "s"),
    "grid": ("#7048e8", "D"),
    "rtree": ("#2f9e44", "^"),
    "metric": ("#d6336c", "P"),
    "hypergraph": ("#343a40", "x"),
    "frequency": ("#adb5bd", "v"),
    "none": ("#343a40", "x"),
    "cells": ("#0b7285", "o"),
    "new plan": ("#e8590c", "s"),
    "gr+": ("#0b7285", "o"),
    "gr": ("#e8590c", "s"),
    "dp": ("#7048e8", "D"),
    "dp, in subscriptions": ("#2f9e44", "^"),
    "si": ("#d6336c", "P"),
    "ra": ("#343a40", "x"),
    "world": ("#f08c00", "*"),
    "one_country": ("#d6336c", "P"),
}
_COLOURS = ("#0b7285", "#e8590c", "#7048e8", "#2f9e44", "#d6336c", "#343a40")
LABELS: Mapping[str, str] = {
    "throughput": "throughput, posts/s",
    "spread": "spread, matchers per post",
    "imbalance": "imbalance, maximum / mean",
    "accuracy": "matches found, share",
    "shed": "load shed, share",
    "seconds": "time, s",
    "learned": "posts in the sample",
    "subscriptions": "number of subscriptions",
    "weeks": "time since learning, weeks",
    "limit": "limit, matchers per post",
    "second": "time, s",
    "rate": "rate, posts/s",
    "level": "level",
    "delay": "delay, s",
    "words": "number of distinct terms per matcher",
    "ns": "cost, ns per post",
    "nodes": "machines",
    "partitions": "partitions k",
    "partitioners": "partitioners P",
    "threshold": "threshold thr",
    "minutes": "window, minutes",
    "communication": "communication, calculators per post",
    "gini": "Gini coefficient",
    "max_load": "largest load, share",
    "error": "mean error",
    "coverage": "coverage, share of tag sets",
    "largest_tags": "share of tags",
    "largest_load": "share of posts",
    "np": "n·p",
    "latency_ms": "latency, ms",
    "worker_bytes": "memory, bytes",
    "dispatcher_bytes": "memory, bytes",
    "workers": "workers",
    "round": "round",
    "matchers": "number of matchers",
    "crawlers": "crawlers",
    "filters": "filters",
    "reflectors": "reflectors",
    "feeds": "feeds",
    "workload": "workload",
    "repartitions": "repartitions",
    "components": "connected sets",
    "evenness": "weight of evenness",
    "support": "posts per week",
    "jaccard": "Jaccard coefficient",
    "weeks_from_event": "weeks from the event",
    "cost_bytes": "bytes to move",
    "moved_bytes": "bytes moved",
    "milliseconds": "selection time, ms",
    "latency_during_ms": "latency, ms",
    "query_set": "query set",
    "part": "part of the latency",
}


def draw_figure(figure: Figure, rows: Rows, folder: Path) -> Path | None:
    """Draw the panels that have rows side by side. Returns the path, or None if there are no rows."""
    drawable = [(panel, selected) for panel in figure.panels if (selected := _select(panel, rows))]
    if not drawable:
        return None
    plt, path = load_pyplot(), folder / f"{figure.name}.png"
    with plt.rc_context({**STYLE, "axes.grid": True, "grid.color": "#e9ecef", "grid.linewidth": 0.8}):
        size = (_PANEL_INCHES[0] * len(drawable) + 1.1, _PANEL_INCHES[1])
        canvas, axes = plt.subplots(1, len(drawable), figsize=size, layout="constrained", squeeze=False)
        for place, (panel, selected) in zip(axes[0], drawable, strict=True):
            draw_panel(place, panel, selected)
        handles = {
            label: line for place in axes[0] for line, label in zip(*place.get_legend_handles_labels(), strict=True)
        }
        if len(handles) > 1:
            canvas.legend(handles.values(), handles, loc="outside right upper", frameon=False, fontsize=10)
        folder.mkdir(parents=True, exist_ok=True)
        canvas.savefig(path, dpi=130)
        plt.close(canvas)
    return path


def _select(panel: Mapping[str, Any], rows: Rows) -> list[Row]:
    chosen = select_rows(rows, panel.get("where", {}))
    return [row for row in chosen if row.get(panel["x"]) is not None and row.get(panel["y"]) is not None]


def draw_panel(axes: Any, panel: Mapping[str, Any], rows: Rows) -> None:
    """Draw a chart: the mean of each series at each x, with the standard deviation if there are several rows."""
    if panel.get("bars"):
        _draw_bars(axes, panel, rows)
        return
    for number, name in enumerate(_series_names(panel, rows)):
        series_rows = select_rows(rows, {panel["series"]: name}) if name != "" else list(rows)
        places, heights, errors = _series_points(panel, series_rows, rows)
        colour, marker = _style(name, number)
        has_many = len(places) > _MAX_MARKED_POINTS
        width = 1.0 if has_many else 2.2 if name == "salb+" else 1.5
        dotted = bool(panel.get("dots")) and name != "fitted"
        mark = "" if has_many and not dotted else marker
        style = {"color": colour, "marker": mark, "ms": 5, "lw": width, "capsize": 2.5}
        bars = errors if any(errors) else None
        shape = {"ls": "none"} if dotted else {}
        axes.errorbar(places, heights, yerr=bars, label=_series_label(panel, name), elinewidth=0.9, **style, **shape)
        if "marks" in panel:  # events such as repartitions
            events = [row[panel["x"]] for row in series_rows if row.get(panel["marks"])]
            axes.vlines(events, 0, max(heights, default=1), color=QUIET, lw=0.5, zorder=0)
    _set_scales(axes, panel, rows)
    label = _axis_label(panel, "y")
    if "relative_to" in panel:  # the unit cancels
        label = f"{label.partition(',')[0]}, {panel['relative_to']} = 1"
    axes.set_ylabel(label)
    axes.set_xlabel(_axis_label(panel, "x"))
    axes.set_title(panel.get("title", ""), loc="left", fontsize=11)
    axes.tick_params(color=QUIET)


def _series_names(panel: Mapping[str, Any], rows: Rows) -> list[Any]:
    """Return the series of a panel in the order of `_STYLES`; one without a name if there are none."""
    names = [value for ((_, value),) in distinct_points(rows, [panel["series"]])] if "series" in panel else [""]
    order = {name: place for place, name in enumerate(_STYLES)}
    return sorted(names, key=lambda name: order.get(str(name), 99))


def _style(name: object, number: int) -> tuple[str, str]:
    return _STYLES.get(str(name), (_COLOURS[number % len(_COLOURS)], "o"))


def _series_label(panel: Mapping[str, Any], name: object) -> str:
    label: str = panel.get("names", {}).get(str(name), str(name))
    return label


def _draw_bars(axes: Any, panel: Mapping[str, Any], rows: Rows) -> None:
    """Draw a bar per value of x in the order of the rows; labelled with its height, or one bar per series."""
    names = list(dict.fromkeys(row[panel["x"]] for row in rows))
    series = _series_names(panel, rows)
    width = 0.8 / len(series) if len(series) > 1 else 0.6
    for number, series_name in enumerate(series):
        series_rows = select_rows(rows, {panel["series"]: series_name}) if series_name != "" else list(rows)
        heights = [
            float(np.mean([row[panel["y"]] for row in select_rows(series_rows, {panel["x"]: name})])) for name in names
        ]
        places = np.arange(len(names)) + (number - (len(series) - 1) / 2) * width
        drawn = axes.bar(
            places, heights, color=_style(series_name, number)[0], width=width, label=_series_label(panel, series_name)
        )
        if len(series) == 1:
            labels = [f"{height:,.0f}" if height >= 1000 else f"{height:.3g}" for height in heights]
            axes.bar_label(drawn, labels, padding=2, fontsize=9)
    labels = [f"{name:,}" if isinstance(name, int) else str(name) for name in names]
    if len(names) > _MAX_UPRIGHT_LABELS:
        axes.set_xticks(range(len(names)), labels, rotation=20, ha="right", rotation_mode="anchor")
    else:
        axes.set_xticks(range(len(names)), labels)
    if panel.get("yscale") != "log" and max(axes.get_ylim()) >= 10_000:
        axes.yaxis.set_major_formatter(lambda value, _: _format_short(value))
    axes.set_axisbelow(True)
    if panel.get("yscale") == "log":
        axes.set_yscale("log")
    axes.margins(y=0.15)
    axes.set_ylabel(_axis_label(panel, "y"))
    axes.set_title(panel.get("title", ""), loc="left", fontsize=11)
    axes.tick_params(axis="x", color=QUIET)
    if "xlabel" in panel:
        axes.set_xlabel(panel["xlabel"])


def _series_points(
    panel: Mapping[str, Any], series_rows: Rows, all_rows: Rows
) -> tuple[list[float], list[float], list[float]]:
    """Return x values, means and standard deviations of a series."""
    places, heights, errors = [], [], []
    by = panel.get("by", panel["x"])
    for point in distinct_points(series_rows, [by]):
        group = select_rows(series_rows, dict(point))
        values = [row[panel["y"]] / _reference_value(panel, row, all_rows) for row in group]
        places.append(float(np.mean([row[panel["x"]] for row in group])))
        heights.append(float(np.mean(values)))
        errors.append(float(np.std(values)) if len(values) > 1 else 0.0)
    order = np.argsort(places, kind="stable").tolist()
    return [places[at] for at in order], [heights[at] for at in order], [errors[at] for at in order]


def _reference_value(panel: Mapping[str, Any], row: Row, rows: Rows) -> float:
    """Return the value of the reference series at the same x, fold and data set; 1 if there is no reference."""
    if "relative_to" not in panel:
        return 1.0
    same = {name: row[name] for name in (panel["x"], "fold", "dataset") if name in row}
    value: float = select_rows(rows, {**same, panel["series"]: panel["relative_to"]})[0][panel["y"]]
    return value


def _set_scales(axes: Any, panel: Mapping[str, Any], rows: Rows) -> None:
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
        axes.xaxis.set_major_formatter(lambda value, _: _format_short(value))
    if panel.get("yscale") == "log":
        axes.set_yscale("log")
    else:
        bottom, (low, high) = panel.get("bottom", 0), axes.get_ylim()
        is_flat = high - low < 0.2 * (high - bottom)  # then the default margin is too small and markers are cut off
        axes.set_ylim(bottom, high + 0.05 * (high - bottom) * is_flat)
        if max(abs(edge) for edge in axes.get_ylim()) >= 10_000:
            axes.yaxis.set_major_formatter(lambda value, _: _format_short(value))


def _format_short(value: float) -> str:
    """Return a large number in short form."""
    return f"{value / 1e6:g} M" if abs(value) >= 1e6 else f"{value / 1e3:g} K" if value else "0"


def _axis_label(panel: Mapping[str, Any], axis: str) -> str:
    label: str = panel.get(f"{axis}label", LABELS.get(panel[axis], panel[axis].replace("_", " ")))
    return label
