"""Encode regions as rows of four numbers. A region is identified by the number of its first row.

A rectangle is one row: west, south, east, north. Any other shape has several rows: a header ``NaN, parts, rows, 0``
(no point lies in a rectangle with a NaN side, so rectangles stay the fast case); for each part its bounding box and
``kind, first row of its data counted from the header, rows, 0``; then the data. The data of a circle is one row
``lon, lat, largest haversine, cosine of lat``; a polygon has one row per edge, ``x1, y1, x2, y2`` in steps. A part may
also be its box and have no data: a rectangle across the antimeridian has one on each side of it. A rectangle or polygon
with a pole has a part for the pole at every longitude.
`containment.py` is the reference for the meaning.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numba import float64, int64, types, uint64
from numpy.typing import NDArray

from tidings.jit import inline, kernel, read
from tidings.query.dnf import Circle, Polygons, Rectangle, Region
from tidings.query.geo.containment import (
    EARTH_RADIUS_KM,
    STEPS_PER_DEGREE,
    cos_lat,
    is_pole,
    max_haversine,
    to_steps,
)
from tidings.query.geo.rectangle import rectangle_boxes

Row = tuple[float, float, float, float]

_POLYGON, _CIRCLE, _BOX = 0.0, 1.0, 2.0
_MARGIN = 2e-4  # degrees that the box of a circle is enlarged by: more than the tolerance at its border
_ONE = np.uint64(1)
_TWO = np.uint64(2)
_THREE = np.uint64(3)
_FOUR = np.uint64(4)


def encode_region(region: Region) -> list[Row]:
    """Return the rows of a region."""
    match region:
        case Rectangle():
            boxes = rectangle_boxes(region)
            return boxes if len(boxes) == 1 else _shape([(box, _BOX, 0, 0) for box in boxes], [])
        case Circle(lat, lon, radius_km):
            row = (lon, lat, max_haversine(radius_km), cos_lat(lat))
            return _shape([(box, _CIRCLE, 0, 1) for box in circle_boxes(region)], [row])
        case Polygons(polygons):
            edges = [[edge for ring in polygon for edge in _edges(ring)] for polygon in polygons]
            edges += _pole_edges(edges)
            firsts = np.cumsum([0, *map(len, edges)]).tolist()
            parts = [(_box(rows), _POLYGON, first, len(rows)) for rows, first in zip(edges, firsts, strict=False)]
            return _shape(parts, [edge for rows in edges for edge in rows])


def _shape(parts: Sequence[tuple[Row, float, int, int]], data: list[Row]) -> list[Row]:
    base = 1 + 2 * len(parts)
    rows: list[Row] = [(math.nan, float(len(parts)), float(base + len(data)), 0.0)]
    for box, kind, first, count in parts:
        rows += [box, (kind, float(base + first), float(count), 0.0)]
    return rows + data


def _edges(ring: Sequence[tuple[float, float]]) -> list[Row]:
    corners = [(float(to_steps(lon)), float(to_steps(lat))) for lon, lat in ring]
    return [(*start, *end) for start, end in pairwise(corners)]


def _pole_edges(polygons: Sequence[Sequence[Row]]) -> list[list[Row]]:
    """Return a polygon along all longitudes for each pole that is a corner of a polygon."""
    end = float(to_steps(180.0))
    corners = {edge[1] for edges in polygons for edge in edges}
    return [[(-end, y, end, y), (end, y, -end, y)] for y in sorted(corners) if is_pole(y / STEPS_PER_DEGREE)]


def _box(edges: Sequence[Row]) -> Row:
    """Return the box of a polygon in degrees, one step larger, so that rounded positions stay inside."""
    x, y = [edge[0] for edge in edges], [edge[1] for edge in edges]
    west, south, east, north = min(x) - 1, min(y) - 1, max(x) + 1, max(y) + 1
    return west / STEPS_PER_DEGREE, south / STEPS_PER_DEGREE, east / STEPS_PER_DEGREE, north / STEPS_PER_DEGREE


def circle_boxes(circle: Circle) -> list[Row]:
    """Return boxes that cover a circle: one, or two if it crosses the antimeridian."""
    angle = math.degrees(circle.radius_km / EARTH_RADIUS_KM) + _MARGIN
    south, north = max(-90.0, circle.lat - angle), min(90.0, circle.lat + angle)
    if abs(circle.lat) + angle >= 90:
        return [(-180.0, south, 180.0, north)]
    widest = math.sin(math.radians(angle)) / math.cos(math.radians(circle.lat))
    around = math.degrees(math.asin(min(1.0, widest))) + _MARGIN
    west, east = circle.lon - around, circle.lon + around
    if east - west >= 360:
        return [(-180.0, south, 180.0, north)]
    if west < -180:
        return [(-180.0, south, east, north), (west + 360, south, 180.0, north)]
    if east > 180:
        return [(west, south, 180.0, north), (-180.0, south, east - 360, north)]
    return [(west, south, east, north)]


def bounding_boxes(
    regions: NDArray[np.float64], numbers: NDArray[np.integer]
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Return (boxes, index into `numbers` of each box): one per rectangle, one per part of other shapes."""
    plain = np.flatnonzero(~np.isnan(regions[numbers, 0]))
    boxes, which = [regions[numbers[plain]]], [plain]
    for at in np.flatnonzero(np.isnan(regions[numbers, 0])).tolist():
        first = int(numbers[at])
        parts = int(regions[first, 1])
        boxes.append(regions[first + 1 : first + 1 + 2 * parts : 2])
        which.append(np.full(parts, at))
    return np.concatenate(boxes).reshape(-1, 4), np.concatenate(which)


def deduplicate_regions(regions: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return (rows with equal regions stored once, new first row of the region that starts at each old row)."""
    shapes = np.flatnonzero(np.isnan(regions[:, 0]))
    is_data = np.zeros(len(regions), bool)  # a row of a shape after its header
    seen: dict[bytes, int] = {}
    for first in shapes.tolist():
        rows = slice(first, first + int(regions[first, 2]))
        is_data[first + 1 : rows.stop] = True
        seen.setdefault(regions[rows].tobytes(), first)
    plain = np.flatnonzero(~is_data & ~np.isnan(regions[:, 0]))
    order = plain[np.lexsort(regions[plain].T)]
    is_new = np.ones(len(order), bool)
    is_new[1:] = (regions[order[1:]] != regions[order[:-1]]).any(axis=1)
    firsts = order[is_new]
    new_row = np.zeros(len(regions), np.int64)
    new_row[order] = np.cumsum(is_new) - 1
    pieces, used = [regions[firsts]], len(firsts)
    moved: dict[int, int] = {}
    for first in seen.values():
        pieces.append(regions[first : first + int(regions[first, 2])])
        moved[first], used = used, used + len(pieces[-1])
    for first in shapes.tolist():
        new_row[first] = moved[seen[regions[first : first + int(regions[first, 2])].tobytes()]]
    return np.concatenate(pieces), new_row


def bounding_areas(regions: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the area of the boxes, in square degrees, of the region that starts at each row."""
    areas = (regions[:, 2] - regions[:, 0]) * (regions[:, 3] - regions[:, 1])
    shapes = np.flatnonzero(np.isnan(regions[:, 0]))
    boxes, which = bounding_boxes(regions, shapes)
    box_areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    areas[shapes] = np.bincount(which, box_areas, len(shapes))
    return areas


@inline
def _in_box(regions, at, lon, lat):  # type: ignore[no-untyped-def]
    in_columns = regions[at] <= lon and lon <= regions[at + _TWO]
    return in_columns and regions[at + _ONE] <= lat and lat <= regions[at + _THREE]


@inline
def _in_circle(regions, at, lon, lat):  # type: ignore[no-untyped-def]
    across = math.sin(math.radians(lat - regions[at + _ONE]) / 2.0)
    along = math.sin(math.radians(lon - regions[at]) / 2.0)
    shrink = 0.0 if abs(lat) == 90.0 else math.cos(math.radians(lat))
    haversine = across * across + regions[at + _THREE] * shrink * along * along
    return haversine <= regions[at + _TWO]


@inline
def _in_polygon(regions, at, count, lon, lat):  # type: ignore[no-untyped-def]
    """Products of two differences fit into 64 bits, their difference may not: compare, do not subtract."""
    x = int64(math.floor(lon * STEPS_PER_DEGREE + 0.5))
    y = int64(math.floor(lat * STEPS_PER_DEGREE + 0.5))
    is_odd = False
    for edge in range(count):
        corner = at + edge * _FOUR
        x1, y1 = int64(regions[corner]), int64(regions[corner + _ONE])
        x2, y2 = int64(regions[corner + _TWO]), int64(regions[corner + _THREE])
        if y2 < y1:
            x1, y1, x2, y2 = x2, y2, x1, y1
        if y < y1 or y > y2:
            continue
        left, right = (x - x1) * (y2 - y1), (y - y1) * (x2 - x1)
        if left == right and x >= min(x1, x2) and x <= max(x1, x2):
            return True
        if y < y2 and left < right:
            is_odd = not is_odd
    return is_odd


@inline
def _in_shape(regions, at, lon, lat):  # type: ignore[no-untyped-def]
    for part in range(uint64(regions[at + _ONE])):
        box = at + _FOUR * (_ONE + _TWO * part)
        if not _in_box(regions, box, lon, lat):
            continue
        if regions[box + _FOUR] == _BOX:
            return True
        data = at + _FOUR * uint64(regions[box + _FOUR + _ONE])
        if regions[box + _FOUR] == _CIRCLE:
            if _in_circle(regions, data, lon, lat):
                return True
        elif _in_polygon(regions, data, uint64(regions[box + _FOUR + _TWO]), lon, lat):
            return True
    return False


@inline
def is_inside(regions, number, lon, lat):  # type: ignore[no-untyped-def]
    """Return whether a position (or NaN) lies in the region that starts at a row."""
    at = uint64(number) * _FOUR
    if _in_box(regions, at, lon, lat):
        return True
    return regions[at] != regions[at] and _in_shape(regions, at, lon, lat)


@kernel(types.boolean, read(float64), uint64, float64, float64)
def contains(regions, number, lon, lat):  # type: ignore[no-untyped-def]
    """Return `is_inside` for callers that are not compiled."""
    return is_inside(regions, number, lon, lat)
