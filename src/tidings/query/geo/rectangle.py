"""The boxes that a rectangle consists of: it may cross the antimeridian, and it may contain a pole."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tidings.query.dnf import Rectangle
from tidings.query.geo.containment import is_pole

Box = tuple[float, float, float, float]  # west, south, east, north; west ≤ east


def rectangle_boxes(rectangle: Rectangle) -> list[Box]:
    """Return one box on each side of the antimeridian, and one along all longitudes for each pole."""
    west, south, east, north = rectangle.west, rectangle.south, rectangle.east, rectangle.north
    ranges = [(west, east)] if west <= east else [(west, 180.0), (-180.0, east)]
    boxes = [(left, south, right, north) for left, right in ranges]
    if (west, east) != (-180.0, 180.0):
        boxes += [(-180.0, lat, 180.0, lat) for lat in sorted({south, north}) if is_pole(lat)]
    return boxes


def are_single_boxes(sides: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return for rectangles (west, south, east, north) whether they consist of one box."""
    west, south, east, north = sides.T
    has_pole = (np.abs(south) == 90) | (np.abs(north) == 90)
    return np.asarray((west <= east) & (~has_pole | ((west == -180) & (east == 180))))
