"""Polygons: the check that they are some, once, for whatever they were made from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from tidings.config import MAX_CORNERS
from tidings.errors import QueryError
from tidings.query.dnf import Polygons, Ring


def from_numbers(numbers: Sequence[float]) -> Polygons:
    """The polygons that a region column holds as one run of numbers (see `model.REGION_TYPE`), judged."""
    return polygons(unchecked(numbers).polygons)


def unchecked(numbers: Sequence[float]) -> Polygons:
    """The same, taken as they are."""
    rest = iter(numbers)
    try:
        return Polygons(tuple(tuple(_ring(rest) for _ in range(int(next(rest)))) for _ in range(int(next(rest)))))
    except (StopIteration, RuntimeError, ValueError, OverflowError):
        raise QueryError("a region needs four numbers: west, south, east, north, or whole polygons") from None


def _ring(rest: Iterator[float]) -> Ring:
    flat = list(islice(rest, 2 * int(next(rest))))
    return tuple(zip(flat[::2], flat[1::2], strict=True))


def polygons(shapes: Sequence[Sequence[Ring]]) -> Polygons:
    """The polygons, or QueryError that says which ring is none."""
    if not shapes:
        raise QueryError("A region needs at least one polygon; add one.")
    found = Polygons(tuple(tuple(tuple(ring) for ring in shape) for shape in shapes))
    if found.corners > MAX_CORNERS:
        raise QueryError(f"A region has at most {MAX_CORNERS:,} corners, this one {found.corners:,}; simplify it.")
    for number, shape in enumerate(found.polygons, 1):
        if not shape:
            raise QueryError(f"Polygon {number} has no ring; give its border.")
        for place, ring in enumerate(shape, 1):
            _refuse_ring(ring, f"Ring {place} of polygon {number}")
        _refuse_tangled(shape, number)
    return found


def _refuse_ring(ring: Ring, name: str) -> None:
    if len(ring) < 4:
        raise QueryError(f"{name} has {len(ring)} positions; a ring has at least four, the last equal to the first.")
    if ring[0] != ring[-1]:
        raise QueryError(f"{name} is not closed; end it with its first position.")
    for place, (lon, lat) in enumerate(ring, 1):
        if not (-180 <= lon <= 180 and -90 <= lat <= 90):
            raise QueryError(
                f"{name} leaves the globe at position {place}; give longitudes from -180 to 180 and latitudes from -90 "
                "to 90, and cut what crosses the antimeridian into two polygons."
            )


def _refuse_tangled(shape: Sequence[Ring], number: int) -> None:
    """A border must not cross itself, holes must lie inside: shapely knows."""
    from shapely import Polygon, is_valid_reason

    reason = is_valid_reason(Polygon(shape[0], shape[1:]))
    if reason != "Valid Geometry":
        what, _, where = reason.partition("[")
        at = f" near longitude and latitude {where.rstrip(']')}" if where else ""
        raise QueryError(f"Polygon {number} is not valid ({what.lower()}{at}); correct its border.")
