"""Test whether a region contains a position. This is the reference for the compiled test in `geometry.py`.

Borders are part of a region. The Earth is a sphere with its mean radius. A point on the border of a circle is inside,
with a relative tolerance of 1e-12. Polygons have straight borders in degrees, as in GeoJSON. Their corners and the
positions compared with them are rounded to a ten-millionth of a degree (one centimetre); the rest is exact.
A pole is one point: a region that contains it at one longitude contains it at all longitudes.
"""

from __future__ import annotations

from itertools import pairwise
from math import asin, cos, floor, isnan, radians, sin, sqrt

from tidings.query.dnf import Circle, Polygons, Rectangle, Region, Ring

EARTH_RADIUS_KM = 6371.0088
CIRCLE_SLACK = 1e-12
STEPS_PER_DEGREE = 1e7


def region_contains(region: Region, lat: float | None, lon: float | None) -> bool:
    """Return whether there is a position and the region contains it."""
    if lat is None or lon is None or isnan(lat) or isnan(lon):
        return False
    match region:
        case Rectangle(west, south, east, north):
            return south <= lat <= north and (is_pole(lat) or is_between(west, lon, east))
        case Circle(center_lat, center_lon, radius_km):
            return haversine(center_lat, center_lon, lat, lon) <= max_haversine(radius_km)
        case Polygons(polygons):
            point = to_steps(lon), to_steps(lat)
            return any(_contains_pole(polygon, point[1]) or _in_polygon(polygon, point) for polygon in polygons)


def is_pole(lat: float) -> bool:
    return abs(lat) == 90


def is_between(west: float, lon: float, east: float) -> bool:
    """Return whether a longitude lies between two others, from west to east, also across the antimeridian."""
    if west <= east:
        return west <= lon <= east
    return west <= lon <= 180 or -180 <= lon <= east


def haversine(lat: float, lon: float, other_lat: float, other_lon: float) -> float:
    """Return the squared sine of half the angle between two points."""
    across, along = sin(radians(other_lat - lat) / 2), sin(radians(other_lon - lon) / 2)
    return across * across + cos_lat(lat) * cos_lat(other_lat) * along * along


def cos_lat(lat: float) -> float:
    """Return the cosine of a latitude, exactly 0 at a pole."""
    return 0.0 if is_pole(lat) else cos(radians(lat))


def max_haversine(radius_km: float) -> float:
    """Return the largest haversine of a point within a radius."""
    half_angle = min(radius_km / EARTH_RADIUS_KM / 2, asin(1))
    return sin(half_angle) ** 2 * (1 + CIRCLE_SLACK)


def distance_km(lat: float, lon: float, other_lat: float, other_lon: float) -> float:
    """Return the great-circle distance between two points."""
    return 2 * EARTH_RADIUS_KM * asin(min(1.0, sqrt(haversine(lat, lon, other_lat, other_lon))))


def to_steps(degrees: float) -> int:
    """Return degrees as a whole number of steps."""
    return floor(degrees * STEPS_PER_DEGREE + 0.5)


def _contains_pole(rings: tuple[Ring, ...], y: int) -> bool:
    """Return whether the point is a pole and a corner of the polygon too. Straight borders reach poles with corners."""
    return is_pole(y / STEPS_PER_DEGREE) and any(to_steps(lat) == y for ring in rings for _, lat in ring)


def _in_polygon(rings: tuple[Ring, ...], point: tuple[int, int]) -> bool:
    """Return whether the point is on a border or has an odd number of borders to its east."""
    corners = ([(to_steps(lon), to_steps(lat)) for lon, lat in ring] for ring in rings)
    edges = [(*start, *end) for ring in corners for start, end in pairwise(ring)]
    if any(_on_edge(*edge, *point) for edge in edges):
        return True
    return sum(_is_east(*edge, *point) for edge in edges) % 2 == 1


def _on_edge(x1: int, y1: int, x2: int, y2: int, x: int, y: int) -> bool:
    in_line = (x2 - x1) * (y - y1) == (y2 - y1) * (x - x1)
    return in_line and min(x1, x2) <= x <= max(x1, x2) and min(y1, y2) <= y <= max(y1, y2)


def _is_east(x1: int, y1: int, x2: int, y2: int, x: int, y: int) -> bool:
    """Return whether a line due east from the point crosses the edge; its lower end is part of the edge."""
    if (y1 > y) == (y2 > y):
        return False
    if y2 < y1:
        x1, y1, x2, y2 = x2, y2, x1, y1
    return (x - x1) * (y2 - y1) < (y - y1) * (x2 - x1)
