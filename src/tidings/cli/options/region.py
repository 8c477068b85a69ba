"""The option `--region`: west, south, east and north as in `within:`, or a GeoJSON file of polygons."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidings.errors import InputError, QueryError

if TYPE_CHECKING:
    from tidings.query.dnf import Polygons, Rectangle

_SUFFIXES = (".geojson", ".json")


def parse_region(text: str | None) -> Rectangle | Polygons | None:
    """Return the region given by its sides or in a file. Raises InputError if it is invalid."""
    if text is None:
        return None
    try:
        return _read_file(Path(text)) if text.lower().endswith(_SUFFIXES) else _parse_sides(text)
    except QueryError as error:
        raise InputError(f"--region {text}: {error.reason}") from error


def region_to_numbers(region: Rectangle | Polygons | None) -> tuple[float, ...] | None:
    """Return the numbers that represent the region in a store."""
    from tidings.query.dnf import Rectangle

    if region is None:
        return None
    if isinstance(region, Rectangle):
        return region.west, region.south, region.east, region.north
    flat: list[float] = [len(region.polygons)]
    for rings in region.polygons:
        flat.append(len(rings))
        for ring in rings:
            flat += [len(ring), *(number for position in ring for number in position)]
    return tuple(map(float, flat))


def region_to_json(numbers: tuple[float, ...] | None) -> object:
    """Return the region for JSON output: four numbers, or GeoJSON."""
    from tidings.query.geo.geojson import to_geojson

    return numbers if numbers is None or len(numbers) == 4 else to_geojson(numbers)


def format_region(numbers: tuple[float, ...] | None) -> str:
    """Return the region as the end of a line of text."""
    if numbers is None:
        return ""
    if len(numbers) == 4:
        return "  --region " + ",".join(f"{side:g}" for side in numbers)
    from tidings.query.geo.polygon import decode_polygons

    polygons = decode_polygons(numbers)
    count = "a polygon" if len(polygons.polygons) == 1 else f"{len(polygons.polygons):,} polygons"
    return f"  (in {count} of {polygons.corner_count:,} corners)"


def _parse_sides(text: str) -> Rectangle:
    from tidings.query.geo.region import WITHIN_PREFIX, parse_within

    return parse_within(WITHIN_PREFIX + text.replace(" ", ""), 0)


def _read_file(path: Path) -> Polygons:
    from tidings.query.geo.geojson import encode_polygons, is_geojson
    from tidings.query.geo.polygon import polygons_from_numbers

    try:
        value: Any = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise InputError(f"--region {path}: {error.strerror or error}.") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"--region {path}: not JSON. Give GeoJSON polygons.") from error
    try:
        if not is_geojson(value):
            raise ValueError("JSON, but not GeoJSON: it has no `type`")
        return polygons_from_numbers(encode_polygons(value))
    except ValueError as error:
        raise InputError(f"--region {path}: {error}.") from error
