"""Regions: the one check for `within:` and `near:` in a query and for the region column of a subscription."""

from __future__ import annotations

import math
import re

from tidings.errors import QueryError
from tidings.query.dnf import Circle, Place, Polygons, Region
from tidings.query.geo.polygon import polygons

PREFIX, NEAR = "within:", "near:"
MAX_RADIUS_KM = 20_016.0  # half the way around the Earth: everything

_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")  # float() also takes 1_0 and nan
_HOW = "write within:west,south,east,north in degrees"
_HOW_NEAR = "write near:latitude,longitude,kilometres"


def region(west: float, south: float, east: float, north: float, position: int = 0) -> Region:
    """The rectangle, or QueryError (at `position`) when these four are no rectangle on Earth."""
    sides = [_degrees(side, position) for side in (west, south, east, north)]
    west, south, east, north = sides
    if not all(-180 <= side <= 180 for side in (west, east)):
        raise QueryError("West and east lie between -180 and 180 degrees; correct them.", position)
    if not all(-90 <= side <= 90 for side in (south, north)):
        raise QueryError("South and north lie between -90 and 90 degrees; correct them.", position)
    if south > north:
        raise QueryError(f"South lies north of north; {_HOW}.", position)
    if west > east:
        raise QueryError(
            "West lies east of east; write a region across the antimeridian as two regions joined by OR.", position
        )
    return Region(west, south, east, north)


def checked(place: Place) -> Place:
    """The place itself, or QueryError; what was made by hand gets the same look as what was typed."""
    match place:
        case Region(west, south, east, north):
            return region(west, south, east, north)
        case Circle(lat, lon, radius_km):
            return circle(lat, lon, radius_km)
        case Polygons(shapes):
            return polygons(shapes)


def circle(lat: float, lon: float, radius_km: float, position: int = 0) -> Circle:
    """The circle, or QueryError (at `position`) when these are no point on Earth and no distance."""
    lat, lon, radius_km = (_degrees(number, position, _HOW_NEAR) for number in (lat, lon, radius_km))
    if not -90 <= lat <= 90:
        raise QueryError(f"The latitude lies between -90 and 90 degrees; {_HOW_NEAR}.", position)
    if not -180 <= lon <= 180:
        raise QueryError(f"The longitude lies between -180 and 180 degrees; {_HOW_NEAR}.", position)
    if not 0 < radius_km <= MAX_RADIUS_KM:
        raise QueryError(f"The radius lies above 0 and up to {MAX_RADIUS_KM:,.0f} kilometres; correct it.", position)
    return Circle(lat, lon, radius_km)


def typed_place(word: str, position: int) -> Place | None:
    """The region a word of a query asks for; None when the word is none; QueryError when it is a wrong one."""
    lower = word.lower()
    if lower.startswith(PREFIX + NEAR):
        return near(word[len(PREFIX) :], position)
    if lower.startswith(PREFIX):
        return within(word, position)
    return near(word, position) if lower.startswith(NEAR) else None


def near(word: str, position: int) -> Circle:
    """The circle of a word that starts with `near:`, or QueryError at its position."""
    numbers = word[len(NEAR) :].split(",")
    if len(numbers) != 3:
        raise QueryError(f"A circle has three numbers with commas and no spaces between; {_HOW_NEAR}.", position)
    if not all(map(_NUMBER.fullmatch, numbers)):
        raise QueryError(f"A part of this circle is not a number; {_HOW_NEAR}.", position)
    lat, lon, radius_km = map(float, numbers)
    return circle(lat, lon, radius_km, position)


def within(word: str, position: int) -> Region:
    """The region of a word that starts with `within:`, or QueryError at its position."""
    numbers = word[len(PREFIX) :].split(",")
    if len(numbers) != 4:
        raise QueryError(f"A region has four numbers with commas and no spaces between; {_HOW}.", position)
    for number in numbers:
        if not _NUMBER.fullmatch(number):
            raise QueryError(f"A side of this region is not a number; {_HOW}.", position)
    west, south, east, north = map(float, numbers)
    return region(west, south, east, north, position)


def _degrees(side: object, position: int, how: str = "give west, south, east, north") -> float:
    """The side as a float without a negative zero; whatever a column may hold instead of a number is refused."""
    try:
        degrees = float(side)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        degrees = math.nan
    if not math.isfinite(degrees):
        raise QueryError(f"A side of this region is not a finite number; {how}.", position)
    return degrees + 0.0
