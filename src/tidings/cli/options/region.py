"""The option `--region W,S,E,N`, read as `within:` is, or a GeoJSON file of polygons."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidings.errors import InputError, QueryError

if TYPE_CHECKING:
    from tidings.query.dnf import Polygons, Region

_SUFFIXES = (".geojson", ".json")


def typed_region(typed: str | None) -> Region | Polygons | None:
    """The region that was typed, or that the file holds; InputError with the reason when it is none."""
    if typed is None:
        return None
    try:
        return _of_file(Path(typed)) if typed.lower().endswith(_SUFFIXES) else _of_sides(typed)
    except QueryError as error:
        raise InputError(f"--region {typed}: {error.reason}") from error


def numbers_of(region: Region | Polygons | None) -> tuple[float, ...] | None:
    """The numbers a store keeps of a region."""
    from tidings.query.dnf import Region

    if region is None:
        return None
    if isinstance(region, Region):
        return region.west, region.south, region.east, region.north
    flat: list[float] = [len(region.polygons)]
    for rings in region.polygons:
        flat.append(len(rings))
        for ring in rings:
            flat += [len(ring), *(number for position in ring for number in position)]
    return tuple(map(float, flat))


def told_region(numbers: tuple[float, ...] | None) -> object:
    """A region for programs: four numbers, or GeoJSON."""
    from tidings.query.geo.geojson import to_geojson

    return numbers if numbers is None or len(numbers) == 4 else to_geojson(numbers)


def shown_region(numbers: tuple[float, ...] | None) -> str:
    """A region on a line of text."""
    if numbers is None:
        return ""
    if len(numbers) == 4:
        return "  --region " + ",".join(f"{side:g}" for side in numbers)
    from tidings.query.geo.polygon import unchecked

    found = unchecked(numbers)
    what = "a polygon" if len(found.polygons) == 1 else f"{len(found.polygons):,} polygons"
    return f"  (in {what} of {found.corners:,} corners)"


def _of_sides(typed: str) -> Region:
    from tidings.query.geo.region import PREFIX, within

    return within(PREFIX + typed.replace(" ", ""), 0)


def _of_file(path: Path) -> Polygons:
    from tidings.query.geo.geojson import flat_polygons, is_geojson
    from tidings.query.geo.polygon import from_numbers

    try:
        value: Any = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise InputError(f"--region {path}: {error.strerror or error}.") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"--region {path}: this file is not JSON; give GeoJSON polygons.") from error
    try:
        if not is_geojson(value):
            raise ValueError("this is JSON, but not GeoJSON: it has no `type`")
        return from_numbers(flat_polygons(value))
    except ValueError as error:
        raise InputError(f"--region {path}: {error}.") from error
