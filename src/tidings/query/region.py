"""Regions: the one check for `within:` in a query and for the region column of a subscription."""

from __future__ import annotations

import math
import re

from tidings.errors import QueryError
from tidings.query.normal import Region

PREFIX = "within:"

_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")  # float() also takes 1_0 and nan
_HOW = "write within:west,south,east,north in degrees"


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


def _degrees(side: object, position: int) -> float:
    """The side as a float without a negative zero; whatever a column may hold instead of a number is refused."""
    try:
        degrees = float(side)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        degrees = math.nan
    if not math.isfinite(degrees):
        raise QueryError("A side of this region is not a finite number; give west, south, east, north.", position)
    return degrees + 0.0
