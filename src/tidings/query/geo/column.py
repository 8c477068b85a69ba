"""A region as it may be written: numbers, an object, GeoJSON, text. Whether it is a sensible place is asked later."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from tidings.query.geo.geojson import FEWEST_NUMBERS, flat_polygons, is_geojson
from tidings.schemas import REGION_FIELDS

_SHAPE = "the region must be four numbers: west, south, east, north"


def parse_region(value: Any) -> list[float]:
    """Four finite floats from ``[w, s, e, n]``, ``{"west": w, …}``, ``"w,s,e,n"`` or ``"[w,s,e,n]"``; or ValueError.

    GeoJSON polygons, as an object or its text, become the run of numbers that `model.REGION_TYPE` tells of.
    """
    if isinstance(value, str):
        value = _from_text(value)
    if is_geojson(value):
        return flat_polygons(value)
    if isinstance(value, Mapping):
        value = [value.get(name) for name in REGION_FIELDS]
    try:
        region = [float(part) for part in value]
    except (TypeError, ValueError, OverflowError):
        raise ValueError(_SHAPE) from None
    if len(region) >= FEWEST_NUMBERS and all(map(math.isfinite, region)):
        return region  # polygons that were read before
    if len(region) != 4 or not all(map(math.isfinite, region)) or any(type(part) is bool for part in value):
        raise ValueError(_SHAPE)
    return region


def _from_text(text: str) -> Any:
    if text.lstrip().startswith(("[", "{")):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise ValueError(_SHAPE) from None
    return text.split(",")
