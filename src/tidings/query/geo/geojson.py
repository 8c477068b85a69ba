"""Encode GeoJSON polygons (RFC 7946) as flat numbers for a column, and back. `polygon.py` validates them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

MIN_POLYGON_NUMBERS = 11  # one polygon of one ring of four positions
_EXPECTED = "the region must be four numbers: west, south, east, north, or a GeoJSON Polygon or MultiPolygon"


def is_geojson(value: Any) -> bool:
    return isinstance(value, Mapping) and "type" in value


def encode_polygons(value: Mapping[str, Any]) -> list[float]:
    """Return the numbers of a Polygon, a MultiPolygon, a Feature of one, or a FeatureCollection; or ValueError."""
    polygons = _polygons(value)
    flat = [float(len(polygons))]
    for polygon in polygons:
        flat.append(float(len(_check_list(polygon))))
        for ring in polygon:
            flat.append(float(len(_check_list(ring))))
            for position in ring:
                flat += _position(position)
    return flat


def to_geojson(numbers: Sequence[float]) -> dict[str, Any]:
    """Decode flat numbers to a GeoJSON Polygon or MultiPolygon."""
    remaining = iter(numbers)

    def count() -> range:
        return range(int(next(remaining)))

    polygons = [[[[next(remaining), next(remaining)] for _ in count()] for _ in count()] for _ in count()]
    if len(polygons) == 1:
        return {"type": "Polygon", "coordinates": polygons[0]}
    return {"type": "MultiPolygon", "coordinates": polygons}


def _polygons(value: Mapping[str, Any]) -> Sequence[Any]:
    if value["type"] == "FeatureCollection" and isinstance(value.get("features"), list):
        features = value["features"]
        if not all(map(is_geojson, features)):
            raise ValueError(_EXPECTED)
        return [polygon for feature in features for polygon in _polygons(feature)]
    if value["type"] == "Feature" and is_geojson(value.get("geometry")):
        value = value["geometry"]
    kind, coordinates = value.get("type"), value.get("coordinates")
    if kind not in ("Polygon", "MultiPolygon"):
        raise ValueError(f"{_EXPECTED}, not {kind!r}" if isinstance(kind, str) else _EXPECTED)
    return _check_list([coordinates] if kind == "Polygon" else coordinates)


def _check_list(value: Any) -> Sequence[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{_EXPECTED}; its coordinates are not lists of rings of positions")
    return value


def _position(value: Any) -> list[float]:
    """Return longitude and latitude; a height is ignored."""
    message = f"{_EXPECTED}; a position is two numbers, longitude and latitude"
    if not isinstance(value, list) or len(value) not in (2, 3) or any(type(n) not in (int, float) for n in value):
        raise ValueError(message)
    try:
        return [float(number) for number in value[:2]]
    except OverflowError:
        raise ValueError(message) from None
