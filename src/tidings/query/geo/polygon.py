"""Validate polygons, from a region column and from GeoJSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from tidings.config import MAX_REGION_CORNERS
from tidings.errors import QueryError
from tidings.query.dnf import Polygons, Ring


def polygons_from_numbers(numbers: Sequence[float]) -> Polygons:
    """Return the validated polygons of the flat numbers of a region column (`schemas.REGION_TYPE`)."""
    return make_polygons(decode_polygons(numbers).polygons)


def decode_polygons(numbers: Sequence[float]) -> Polygons:
    """Return the polygons of flat numbers without validation."""
    remaining = iter(numbers)
    try:
        return Polygons(tuple(_polygon(remaining) for _ in range(int(next(remaining)))))
    except (StopIteration, RuntimeError, ValueError, OverflowError):
        raise QueryError(
            "These numbers are neither a rectangle (west, south, east, north) nor polygons. Correct the region."
        ) from None


def _polygon(numbers: Iterator[float]) -> tuple[Ring, ...]:
    return tuple(_ring(numbers) for _ in range(int(next(numbers))))


def _ring(numbers: Iterator[float]) -> Ring:
    flat = list(islice(numbers, 2 * int(next(numbers))))
    return tuple(zip(flat[::2], flat[1::2], strict=True))


def make_polygons(shapes: Sequence[Sequence[Ring]]) -> Polygons:
    """Return the polygons; QueryError names the ring that is not valid."""
    if not shapes:
        raise QueryError("The region has no polygon. Add at least one.")
    region = Polygons(tuple(tuple(tuple(ring) for ring in shape) for shape in shapes))
    if region.corner_count > MAX_REGION_CORNERS:
        raise QueryError(
            f"The region has {region.corner_count:,} corners; at most {MAX_REGION_CORNERS:,} are allowed. Simplify it."
        )
    for number, shape in enumerate(region.polygons, 1):
        if not shape:
            raise QueryError(f"Polygon {number} has no ring. Add its border.")
        for ring_number, ring in enumerate(shape, 1):
            _check_ring(ring, f"Ring {ring_number} of polygon {number}")
        _check_geometry(shape, number)
    return region


def _check_ring(ring: Ring, name: str) -> None:
    if len(ring) < 4:
        raise QueryError(f"{name} has {len(ring)} positions. Give at least four, the last equal to the first.")
    if ring[0] != ring[-1]:
        raise QueryError(f"{name} is not closed. End it with its first position.")
    for number, (lon, lat) in enumerate(ring, 1):
        if not (-180 <= lon <= 180 and -90 <= lat <= 90):
            raise QueryError(
                f"{name} leaves the globe at position {number}. Use longitudes from -180 to 180 and latitudes from -90 "
                "to 90, and split a polygon that crosses the antimeridian into two."
            )


def _check_geometry(shape: Sequence[Ring], number: int) -> None:
    """Check with shapely that no border crosses itself and that holes lie inside."""
    from shapely import Polygon, is_valid_reason

    reason = is_valid_reason(Polygon(shape[0], shape[1:]))
    if reason != "Valid Geometry":
        what, _, where = reason.partition("[")
        at = f" near longitude and latitude {where.rstrip(']')}" if where else ""
        raise QueryError(f"Polygon {number} is not valid ({what.lower()}{at}). Correct its border.")
