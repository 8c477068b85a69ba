"""Build and validate regions, for `within:` and `near:` in a query and for the region column of a subscription."""

from __future__ import annotations

import math
import re

from tidings.errors import QueryError
from tidings.query.dnf import Circle, Polygons, Rectangle, Region
from tidings.query.geo.polygon import make_polygons

WITHIN_PREFIX, NEAR_PREFIX = "within:", "near:"
MAX_RADIUS_KM = 20_016.0  # half the circumference of the Earth: everything

_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")  # float() also accepts 1_0 and nan
_WITHIN_HINT = "Write within:west,south,east,north in degrees."
_NEAR_HINT = "Write near:latitude,longitude,kilometres, for example near:51.5,-0.13,25."


def make_rectangle(west: float, south: float, east: float, north: float, position: int = 0) -> Rectangle:
    """Return the rectangle, across the antimeridian if west > east; QueryError at `position` if it is not on Earth."""
    west, south, east, north = (_to_finite(side, position, _WITHIN_HINT) for side in (west, south, east, north))
    if not all(-180 <= side <= 180 for side in (west, east)):
        raise QueryError(f"west and east must be between -180 and 180 degrees. {_WITHIN_HINT}", position)
    if not all(-90 <= side <= 90 for side in (south, north)):
        raise QueryError(f"south and north must be between -90 and 90 degrees. {_WITHIN_HINT}", position)
    if south > north:
        raise QueryError(f"south must not be greater than north. {_WITHIN_HINT}", position)
    return Rectangle(west, south, east, north)


def validate_region(region: Region) -> Region:
    """Return the region with the same checks as for a typed one; or QueryError."""
    match region:
        case Rectangle(west, south, east, north):
            return make_rectangle(west, south, east, north)
        case Circle(lat, lon, radius_km):
            return make_circle(lat, lon, radius_km)
        case Polygons(shapes):
            return make_polygons(shapes)


def make_circle(lat: float, lon: float, radius_km: float, position: int = 0) -> Circle:
    """Return the circle; QueryError at `position` if these are not a point on Earth and a distance."""
    lat, lon, radius_km = (_to_finite(number, position, _NEAR_HINT) for number in (lat, lon, radius_km))
    if not -90 <= lat <= 90:
        raise QueryError(f"The latitude must be between -90 and 90 degrees. {_NEAR_HINT}", position)
    if not -180 <= lon <= 180:
        raise QueryError(f"The longitude must be between -180 and 180 degrees. {_NEAR_HINT}", position)
    if not 0 < radius_km <= MAX_RADIUS_KM:
        raise QueryError(
            f"The radius must be greater than 0 and at most {MAX_RADIUS_KM:,.0f} kilometres. {_NEAR_HINT}", position
        )
    return Circle(lat, lon, radius_km)


def parse_region_word(word: str, position: int) -> Region | None:
    """Return the region of a word of a query; None if it has no region prefix; QueryError if it is invalid."""
    lower = word.lower()
    if lower.startswith(WITHIN_PREFIX + NEAR_PREFIX):
        return parse_near(word[len(WITHIN_PREFIX) :], position)
    if lower.startswith(WITHIN_PREFIX):
        return parse_within(word, position)
    return parse_near(word, position) if lower.startswith(NEAR_PREFIX) else None


def parse_near(word: str, position: int) -> Circle:
    """Return the circle of a word that starts with `near:`; or QueryError at `position`."""
    numbers = word[len(NEAR_PREFIX) :].split(",")
    if numbers[0][:1].isalpha():
        raise QueryError(f"Place names are not supported. {_NEAR_HINT}", position)
    lat, lon, radius_km = _parse_numbers(numbers, "A circle needs three numbers", 3, _NEAR_HINT, position)
    return make_circle(lat, lon, radius_km, position)


def parse_within(word: str, position: int) -> Rectangle:
    """Return the rectangle of a word that starts with `within:`; or QueryError at `position`."""
    numbers = word[len(WITHIN_PREFIX) :].split(",")
    west, south, east, north = _parse_numbers(numbers, "A rectangle needs four numbers", 4, _WITHIN_HINT, position)
    return make_rectangle(west, south, east, north, position)


def _parse_numbers(numbers: list[str], problem: str, count: int, hint: str, position: int) -> list[float]:
    if len(numbers) != count:
        raise QueryError(f"{problem}, with commas and no spaces between them. {hint}", position)
    for number in numbers:
        if not _NUMBER.fullmatch(number):
            raise QueryError(f"{number!r} is not a number. {hint}", position)
    return [float(number) for number in numbers]


def _to_finite(value: object, position: int, hint: str) -> float:
    """Return a finite float without a negative zero; QueryError for anything else that a column may hold."""
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise QueryError(f"A number of this region is not finite. {hint}", position)
    return number + 0.0
