"""Whether a position lies in a region, by definition: what the compiled test in `index/shape.py` is held to.

Borders are part of a region. The Earth is a sphere with its mean radius; a point on the border of a circle counts as
inside, to one part in a million million. Polygons have straight borders in degrees (as GeoJSON says), their corners
and the positions held against them are rounded to a ten-millionth of a degree, one centimetre; the rest is exact.
"""

from __future__ import annotations

from itertools import pairwise
from math import asin, cos, floor, isnan, radians, sin, sqrt

from tidings.query.dnf import Circle, Place, Polygons, Region, Ring

EARTH_RADIUS_KM = 6371.0088
CIRCLE_SLACK = 1e-12
STEPS_A_DEGREE = 1e7


def lies_in(place: Place, lat: float | None, lon: float | None) -> bool:
    """Whether the position is there and in the region."""
    if lat is None or lon is None or isnan(lat) or isnan(lon):
        return False
    match place:
        case Region(west, south, east, north):
            return west <= lon <= east and south <= lat <= north
        case Circle(center_lat, center_lon, radius_km):
            return haversine(center_lat, center_lon, lat, lon) <= reach(radius_km)
        case Polygons(polygons):
            point = stepped(lon), stepped(lat)
            return any(_in_polygon(polygon, point) for polygon in polygons)


def haversine(lat: float, lon: float, other_lat: float, other_lon: float) -> float:
    """The squared sine of half the angle between two points."""
    across, along = sin(radians(other_lat - lat) / 2), sin(radians(other_lon - lon) / 2)
    return across * across + cos(radians(lat)) * cos(radians(other_lat)) * along * along


def reach(radius_km: float) -> float:
    """The largest haversine of a point within a radius."""
    half_angle = min(radius_km / EARTH_RADIUS_KM / 2, asin(1))
    return sin(half_angle) ** 2 * (1 + CIRCLE_SLACK)


def distance_km(lat: float, lon: float, other_lat: float, other_lon: float) -> float:
    """The way between two points along the surface."""
    return 2 * EARTH_RADIUS_KM * asin(min(1.0, sqrt(haversine(lat, lon, other_lat, other_lon))))


def stepped(degrees: float) -> int:
    """Degrees as a whole number of steps."""
    return floor(degrees * STEPS_A_DEGREE + 0.5)


def _in_polygon(rings: tuple[Ring, ...], point: tuple[int, int]) -> bool:
    """On a border, or an odd number of borders to the east of it."""
    edges = [
        (stepped(x1), stepped(y1), stepped(x2), stepped(y2)) for ring in rings for (x1, y1), (x2, y2) in pairwise(ring)
    ]
    if any(_on_edge(*edge, *point) for edge in edges):
        return True
    return sum(_is_east(*edge, *point) for edge in edges) % 2 == 1


def _on_edge(x1: int, y1: int, x2: int, y2: int, x: int, y: int) -> bool:
    in_line = (x2 - x1) * (y - y1) == (y2 - y1) * (x - x1)
    return in_line and min(x1, x2) <= x <= max(x1, x2) and min(y1, y2) <= y <= max(y1, y2)


def _is_east(x1: int, y1: int, x2: int, y2: int, x: int, y: int) -> bool:
    """Whether a line due east from the point crosses the edge; of the edge's ends the lower counts."""
    if (y1 > y) == (y2 > y):
        return False
    if y2 < y1:
        x1, y1, x2, y2 = x2, y2, x1, y1
    return (x - x1) * (y2 - y1) < (y - y1) * (x2 - x1)
