"""Read a region from a column: numbers, an object, GeoJSON or text. `region.py` validates it later."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from tidings.query.geo.geojson import MIN_POLYGON_NUMBERS, encode_polygons, is_geojson
from tidings.schemas import REGION_FIELDS

_EXPECTED = "the region must be four numbers: west, south, east, north"


def parse_region(value: Any) -> list[float]:
    """Return four finite floats from ``[w, s, e, n]``, ``{"west": w, …}``, ``"w,s,e,n"`` or ``"[w,s,e,n]"``.

    GeoJSON polygons, as an object or as text, become the flat numbers that `schemas.REGION_TYPE` describes.
    Raises ValueError for anything else.
    """
    if isinstance(value, str):
        value = _from_text(value)
    if is_geojson(value):
        return encode_polygons(value)
    if isinstance(value, Mapping):
        value = [value.get(name) for name in REGION_FIELDS]
    try:
        region = [float(part) for part in value]
    except (TypeError, ValueError, OverflowError):
        raise ValueError(_EXPECTED) from None
    if len(region) >= MIN_POLYGON_NUMBERS and all(map(math.isfinite, region)):
        return region  # polygons that are encoded already
    if len(region) != 4 or not all(map(math.isfinite, region)) or any(type(part) is bool for part in value):
        raise ValueError(_EXPECTED)
    return region


def _from_text(text: str) -> Any:
    if text.lstrip().startswith(("[", "{")):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise ValueError(_EXPECTED) from None
    return text.split(",")
