"""Draw a spatial plan as SVG: cells in the colours of their matchers, shaded by load, with coastlines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from math import inf

import numpy as np
from numpy.typing import NDArray

from tidings.cli.world_map import WORLD, Box, MapProjection, coasts
from tidings.plan.space import SpatialPlan

_WIDTH, _MARGIN, _LINE = 900.0, 20.0, 20.0
_MAX_ASPECT = 1.1  # height over width
_SHADES = 5
_MAX_LEGEND_ROWS = 32
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
class MatcherStats:
    """A matcher in the legend."""

    posts: int
    subscriptions: int
    load: float


def draw_plan(plan: SpatialPlan, stats: Sequence[MatcherStats] = (), cells: NDArray[np.float64] | None = None) -> str:
    """Return the plan as SVG. `cells` is the load of each cell; without it all have the same shade."""
    box = _extent(plan)
    sheet = MapProjection(box, _WIDTH, _MARGIN, _MARGIN + 2 * _LINE)
    if sheet.height > _MAX_ASPECT * _WIDTH:
        sheet = MapProjection(box, _WIDTH * _MAX_ASPECT * _WIDTH / sheet.height, _MARGIN, _MARGIN + 2 * _LINE)
    rows = min(plan.matchers, _MAX_LEGEND_ROWS)
    small = MapProjection(WORLD, 220.0, sheet.left + sheet.width + _MARGIN, sheet.top)
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
        *_legend(plan, stats, small.left, legend_top),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _title(plan: SpatialPlan) -> str:
    used = len(np.unique(plan.area_of_cell))
    return f"{plan.algorithm}: {plan.matchers} matchers, {used:,} areas, learned from {plan.posts:,} posts"


def _subtitle(plan: SpatialPlan, cells: NDArray[np.float64] | None) -> str:
    grid = f"{plan.lines.columns} × {plan.lines.rows} cells; the outer cells extend to the poles and the date line"
    shade = "; darker cells have more posts × subscriptions" if cells is not None else ""
    return f"{grid}{shade}; striped areas divide their terms over several matchers"


def _extent(plan: SpatialPlan) -> Box:
    """Return the box of the grid lines with a margin; the world if there are none."""
    lons, lats = plan.lines.lons, plan.lines.lats
    if not len(lons) or not len(lats):
        return WORLD
    wide, high = max(1.0, float(np.ptp(lons)) * 0.08), max(1.0, float(np.ptp(lats)) * 0.08)
    west, east = max(-180.0, float(lons[0]) - wide), min(180.0, float(lons[-1]) + wide)
    return west, max(-90.0, float(lats[0]) - high), east, min(90.0, float(lats[-1]) + high)


def _cells(plan: SpatialPlan, sheet: MapProjection, loads: NDArray[np.float64] | None) -> Iterator[str]:
    """Yield one rectangle per run of equal cells in a row."""
    columns = plan.lines.columns
    shades = np.full(len(plan.area_of_cell), _SHADES) if loads is None else _shades(loads)
    fills = [_fill(plan, number) for number in range(len(plan.areas))]
    key = plan.area_of_cell.astype(np.int64) * (_SHADES + 1) + shades
    lons = _edges(plan.lines.lons, sheet.box[0], sheet.box[2])
    lats = _edges(plan.lines.lats, sheet.box[1], sheet.box[3])
    for row in range(plan.lines.rows):
        row_keys = key[row * columns : (row + 1) * columns]
        starts = np.flatnonzero(np.diff(row_keys, prepend=-1))
        for start, end in zip(starts.tolist(), [*starts[1:].tolist(), columns], strict=True):
            area, shade = divmod(int(row_keys[start]), _SHADES + 1)
            box = (lons[start], lats[row], lons[end], lats[row + 1])
            yield _rectangle(sheet, box, f'fill="{fills[area]}" fill-opacity="{0.15 + 0.13 * shade:.2f}"')


def _shades(loads: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return 0 for no load, else a shade by powers of ten below the largest load."""
    largest = float(loads.max(initial=0.0))
    with np.errstate(divide="ignore"):
        below = np.log10(np.maximum(loads, 0.0) / largest) if largest else np.full(len(loads), -inf)
    return np.where(loads > 0, np.clip(np.ceil(_SHADES + below), 1, _SHADES), 0).astype(np.int64)


def _edges(lines: NDArray[np.float64], low: float, high: float) -> list[float]:
    return [min(low, *lines, high) if len(lines) else low, *lines.tolist(), max(high, low)]


def _borders(plan: SpatialPlan, sheet: MapProjection) -> str:
    """Return lines between cells of different areas; straight lines in one piece."""
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


def _fill(plan: SpatialPlan, number: int) -> str:
    area = plan.areas[number]
    return f"url(#a{number})" if area.is_shared else _colour(area.matchers[0])


def _patterns(plan: SpatialPlan) -> Iterator[str]:
    """Yield stripes in the colours of the matchers for areas that divide their terms."""
    for number in np.unique(plan.area_of_cell).tolist():
        matchers = sorted(plan.areas[number].holders)
        if len(matchers) > 1:
            size = 5 * len(matchers)
            stripes = "".join(
                f'<rect x="{5 * position}" width="5" height="{size}" fill="{_colour(matcher)}"/>'
                for position, matcher in enumerate(matchers)
            )
            yield (
                f'<pattern id="a{number}" width="{size}" height="{size}" patternUnits="userSpaceOnUse" '
                f'patternTransform="rotate(45)">{stripes}</pattern>'
            )


def _colour(matcher: int) -> str:
    return _COLOURS[matcher % len(_COLOURS)]


def _inset(small: MapProjection, box: Box) -> Iterator[str]:
    """Yield a small world map with the box."""
    yield _rectangle(small, WORLD, 'fill="#eaf1f6" stroke="#aaa"')
    yield f'<path d="{small.rings(coasts())}" fill="#d8d4c6" fill-rule="evenodd"/>'
    yield _rectangle(small, box, 'fill="none" stroke="#c00" stroke-width="1.5"')


def _legend(plan: SpatialPlan, stats: Sequence[MatcherStats], left: float, top: float) -> Iterator[str]:
    max_load = max((row.load for row in stats), default=0.0) or 1.0
    for matcher in range(min(plan.matchers, _MAX_LEGEND_ROWS)):
        y = top + matcher * _LINE
        yield f'<rect x="{left}" y="{y - 10:.0f}" width="12" height="12" fill="{_colour(matcher)}"/>'
        yield f'<text x="{left + 18}" y="{y:.0f}">{matcher}</text>'
        if matcher < len(stats):
            row = stats[matcher]
            bar = 80 * row.load / max_load
            yield f'<rect x="{left + 40}" y="{y - 9:.0f}" width="{bar:.1f}" height="10" fill="#bbb"/>'
            text = f"{row.posts:,} posts, {row.subscriptions:,} subs"
            yield f'<text class="small" x="{left + 44}" y="{y:.0f}">{text}</text>'
    if plan.matchers > _MAX_LEGEND_ROWS:
        y = top + _MAX_LEGEND_ROWS * _LINE
        yield f'<text class="small" x="{left}" y="{y:.0f}">and {plan.matchers - _MAX_LEGEND_ROWS} more</text>'


def _rectangle(sheet: MapProjection, box: Sequence[float], style: str) -> str:
    west, south, east, north = box
    x, y = sheet.x(west), sheet.y(north)
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{sheet.x(east) - x:.1f}" height="{sheet.y(south) - y:.1f}" {style}/>'
