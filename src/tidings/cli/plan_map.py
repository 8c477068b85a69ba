"""A space plan as a picture: whose each cell is, how much it carries, on the coasts of the world."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from math import inf

import numpy as np
from numpy.typing import NDArray

from tidings.cli.world_map import WORLD, Box, Sheet, coasts
from tidings.plan.space import SpacePlan

_WIDTH, _MARGIN, _LINE = 900.0, 20.0, 20.0
_MOST_TALL = 1.1  # of the width
_SHADES = 5
_LEGEND = 32  # workers that are told; more would fill a wall
_COLOURS = (
    "#4e79a7",
    "#f28e2b",
    "#59a14f",
    "#e15759",
    "#b07aa1",
    "#edc948",
    "#76b7b2",
    "#9c755f",
    "#ff9da7",
    "#79706e",
)
_STYLE = "text{font:13px sans-serif;fill:#222}.small{font-size:11px;fill:#555}"


@dataclass(frozen=True, slots=True)
class WorkerTold:
    """What the legend says of a worker; None where nothing was measured."""

    posts: int
    subscriptions: int
    load: float


def plan_map(plan: SpacePlan, told: Sequence[WorkerTold] = (), cells: NDArray[np.float64] | None = None) -> str:
    """The picture as SVG. `cells` is the load of each cell; without it all are drawn alike."""
    box = _extent(plan)
    sheet = Sheet(box, _WIDTH, _MARGIN, _MARGIN + 2 * _LINE)
    if sheet.height > _MOST_TALL * _WIDTH:
        sheet = Sheet(box, _WIDTH * _MOST_TALL * _WIDTH / sheet.height, _MARGIN, _MARGIN + 2 * _LINE)
    rows = min(plan.workers, _LEGEND)
    small = Sheet(WORLD, 220.0, sheet.left + sheet.width + _MARGIN, sheet.top)
    legend_top = small.top + small.height + 2 * _LINE
    bottom = max(sheet.top + sheet.height, legend_top + (rows + 1) * _LINE) + _MARGIN
    width = small.left + small.width + _MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{bottom:.0f}">',
        f"<style>{_STYLE}</style>",
        *_patterns(plan),
        f'<clipPath id="in">{_rectangle(sheet, box, "")}</clipPath>',
        '<rect width="100%" height="100%" fill="#fff"/>',
        f'<text x="{_MARGIN}" y="{_MARGIN + 6}" font-weight="bold">{escape(_title(plan))}</text>',
        f'<text class="small" x="{_MARGIN}" y="{_MARGIN + 24}">{escape(_subtitle(plan, cells))}</text>',
        '<g clip-path="url(#in)">',
        _rectangle(sheet, box, 'fill="#eaf1f6"'),
        f'<path d="{sheet.rings(coasts())}" fill="#fbfaf5" fill-rule="evenodd"/>',
        *_cells(plan, sheet, cells),
        f'<path d="{_borders(plan, sheet)}" stroke="#fff" stroke-width="0.8" fill="none"/>',
        f'<path d="{sheet.rings(coasts())}" fill="none" stroke="#444" stroke-width="1"/>',
        "</g>",
        _rectangle(sheet, box, 'fill="none" stroke="#888"'),
        *_inset(small, box),
        *_legend(plan, told, small.left, legend_top),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _title(plan: SpacePlan) -> str:
    used = len(np.unique(plan.area_of_cell))
    return f"{plan.algorithm}: {plan.workers} matchers, {used:,} areas, learned from {plan.posts:,} posts"


def _subtitle(plan: SpacePlan, cells: NDArray[np.float64] | None) -> str:
    grid = f"{plan.lines.columns} × {plan.lines.rows} cells, the outer ones reach on to the ends of the world"
    shade = "; the darker, the more posts × subscriptions" if cells is not None else ""
    return f"{grid}{shade}; striped: several matchers share the words"


def _extent(plan: SpacePlan) -> Box:
    """Where the lines of the grid are, and a bit more; the world where there are none."""
    lons, lats = plan.lines.lons, plan.lines.lats
    if not len(lons) or not len(lats):
        return WORLD
    wide, high = max(1.0, float(np.ptp(lons)) * 0.08), max(1.0, float(np.ptp(lats)) * 0.08)
    west, east = max(-180.0, float(lons[0]) - wide), min(180.0, float(lons[-1]) + wide)
    return west, max(-90.0, float(lats[0]) - high), east, min(90.0, float(lats[-1]) + high)


def _cells(plan: SpacePlan, sheet: Sheet, loads: NDArray[np.float64] | None) -> Iterator[str]:
    """Runs of cells of the same look in a row as one rectangle."""
    columns = plan.lines.columns
    shades = np.full(len(plan.area_of_cell), _SHADES) if loads is None else _shades(loads)
    fills = [_fill(plan, number) for number in range(len(plan.areas))]
    look = plan.area_of_cell.astype(np.int64) * (_SHADES + 1) + shades
    lons = _edges(plan.lines.lons, sheet.box[0], sheet.box[2])
    lats = _edges(plan.lines.lats, sheet.box[1], sheet.box[3])
    for row in range(plan.lines.rows):
        own = look[row * columns : (row + 1) * columns]
        starts = np.flatnonzero(np.diff(own, prepend=-1))
        for start, end in zip(starts.tolist(), [*starts[1:].tolist(), columns], strict=True):
            area, shade = divmod(int(own[start]), _SHADES + 1)
            box = (lons[start], lats[row], lons[end], lats[row + 1])
            yield _rectangle(sheet, box, f'fill="{fills[area]}" fill-opacity="{0.15 + 0.13 * shade:.2f}"')


def _shades(loads: NDArray[np.float64]) -> NDArray[np.int64]:
    """0 for nothing, then by powers of ten below the largest."""
    largest = float(loads.max(initial=0.0))
    with np.errstate(divide="ignore"):
        below = np.log10(np.maximum(loads, 0.0) / largest) if largest else np.full(len(loads), -inf)
    return np.where(loads > 0, np.clip(np.ceil(_SHADES + below), 1, _SHADES), 0).astype(np.int64)


def _edges(lines: NDArray[np.float64], low: float, high: float) -> list[float]:
    return [min(low, *lines, high) if len(lines) else low, *lines.tolist(), max(high, low)]


def _borders(plan: SpacePlan, sheet: Sheet) -> str:
    """Lines between cells of different areas, where they are straight in one piece."""
    areas = plan.area_of_cell.reshape(plan.lines.rows, plan.lines.columns)
    lons = _edges(plan.lines.lons, sheet.box[0], sheet.box[2])
    lats = _edges(plan.lines.lats, sheet.box[1], sheet.box[3])
    pieces = []
    for column in range(1, plan.lines.columns):
        for first, last in _runs(areas[:, column] != areas[:, column - 1]):
            pieces.append(f"M{sheet.x(lons[column]):.1f} {sheet.y(lats[first]):.1f}V{sheet.y(lats[last]):.1f}")
    for row in range(1, plan.lines.rows):
        for first, last in _runs(areas[row] != areas[row - 1]):
            pieces.append(f"M{sheet.x(lons[first]):.1f} {sheet.y(lats[row]):.1f}H{sheet.x(lons[last]):.1f}")
    return "".join(pieces)


def _runs(flags: NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flags.astype(np.int8), [0]])))
    yield from zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)


def _fill(plan: SpacePlan, number: int) -> str:
    area = plan.areas[number]
    return f"url(#a{number})" if area.is_shared else _colour(area.workers[0])


def _patterns(plan: SpacePlan) -> Iterator[str]:
    """For areas whose words are shared out: stripes in the colours of their matchers."""
    for number in np.unique(plan.area_of_cell).tolist():
        workers = sorted(set(plan.areas[number].workers))
        if len(workers) > 1:
            size = 5 * len(workers)
            stripes = "".join(
                f'<rect x="{5 * place}" width="5" height="{size}" fill="{_colour(worker)}"/>'
                for place, worker in enumerate(workers)
            )
            yield (
                f'<pattern id="a{number}" width="{size}" height="{size}" patternUnits="userSpaceOnUse" '
                f'patternTransform="rotate(45)">{stripes}</pattern>'
            )


def _colour(worker: int) -> str:
    return _COLOURS[worker % len(_COLOURS)]


def _inset(small: Sheet, box: Box) -> Iterator[str]:
    """Where on Earth that is."""
    yield _rectangle(small, WORLD, 'fill="#eaf1f6" stroke="#aaa"')
    yield f'<path d="{small.rings(coasts())}" fill="#d8d4c6" fill-rule="evenodd"/>'
    yield _rectangle(small, box, 'fill="none" stroke="#c00" stroke-width="1.5"')


def _legend(plan: SpacePlan, told: Sequence[WorkerTold], left: float, top: float) -> Iterator[str]:
    most = max((one.load for one in told), default=0.0) or 1.0
    for worker in range(min(plan.workers, _LEGEND)):
        y = top + worker * _LINE
        yield f'<rect x="{left}" y="{y - 10:.0f}" width="12" height="12" fill="{_colour(worker)}"/>'
        yield f'<text x="{left + 18}" y="{y:.0f}">{worker}</text>'
        if worker < len(told):
            one = told[worker]
            bar = 80 * one.load / most
            yield f'<rect x="{left + 40}" y="{y - 9:.0f}" width="{bar:.1f}" height="10" fill="#bbb"/>'
            text = f"{one.posts:,} posts, {one.subscriptions:,} subs"
            yield f'<text class="small" x="{left + 44}" y="{y:.0f}">{text}</text>'
    if plan.workers > _LEGEND:
        y = top + _LEGEND * _LINE
        yield f'<text class="small" x="{left}" y="{y:.0f}">and {plan.workers - _LEGEND} more</text>'


def _rectangle(sheet: Sheet, box: Sequence[float], look: str) -> str:
    west, south, east, north = box
    x, y = sheet.x(west), sheet.y(north)
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{sheet.x(east) - x:.1f}" height="{sheet.y(south) - y:.1f}" {look}/>'
