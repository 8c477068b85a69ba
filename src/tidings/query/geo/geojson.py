"""GeoJSON polygons (RFC 7946) as one run of numbers, which a column can hold, and back; `query/polygon.py` judges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

FEWEST_NUMBERS = 11  # one polygon of one ring of four positions
_WHAT = "the region must be four numbers: west, south, east, north, or a GeoJSON Polygon or MultiPolygon"


def is_geojson(value: Any) -> bool:
    return isinstance(value, Mapping) and "type" in value


def flat_polygons(value: Mapping[str, Any]) -> list[float]:
    """The numbers of a Polygon, a MultiPolygon, a Feature of one of them, or of all features of a collection; or
    ValueError."""
    polygons = _polygons(value)
    flat = [float(len(polygons))]
    for polygon in polygons:
        flat.append(float(len(_listed(polygon))))
        for ring in polygon:
            flat.append(float(len(_listed(ring))))
            for position in ring:
                flat += _position(position)
    return flat


def to_geojson(numbers: Sequence[float]) -> dict[str, Any]:
    """The same polygons as GeoJSON has them."""
    rest = iter(numbers)

    def count() -> range:
        return range(int(next(rest)))

    polygons = [[[[next(rest), next(rest)] for _ in count()] for _ in count()] for _ in count()]
    if len(polygons) == 1:
        return {"type": "Polygon", "coordinates": polygons[0]}
    return {"type": "MultiPolygon", "coordinates": polygons}


def _polygons(value: Mapping[str, Any]) -> Sequence[Any]:
    if value["type"] == "FeatureCollection" and isinstance(value.get("features"), list):
        features = value["features"]
        if not all(is_geojson(one) for one in features):
            raise ValueError(_WHAT)
        return [polygon for one in features for polygon in _polygons(one)]
    if value["type"] == "Feature" and is_geojson(value.get("geometry")):
        value = value["geometry"]
    kind, coordinates = value.get("type"), value.get("coordinates")
    if kind not in ("Polygon", "MultiPolygon"):
        raise ValueError(f"{_WHAT}; {kind!r} is neither" if isinstance(kind, str) else _WHAT)
    return _listed([coordinates] if kind == "Polygon" else coordinates)


def _listed(value: Any) -> Sequence[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{_WHAT}; its coordinates are not lists of rings of positions")
    return value


def _position(value: Any) -> list[float]:
    """Longitude and latitude; a height says nothing here."""
    is_numbers = isinstance(value, list) and len(value) in (2, 3) and all(type(one) in (int, float) for one in value)
    if not is_numbers:
        raise ValueError(f"{_WHAT}; a position is two numbers, longitude and latitude")
    try:
        return [float(one) for one in value[:2]]
    except OverflowError:
        raise ValueError(f"{_WHAT}; a position is two numbers, longitude and latitude") from None
