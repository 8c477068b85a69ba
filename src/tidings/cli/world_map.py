"""Coastlines, and the projection from degrees to a drawing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from math import cos, radians

_HUNDREDTHS = 100.0
Ring = tuple[tuple[float, float], ...]
Box = tuple[float, float, float, float]  # west, south, east, north
WORLD: Box = (-180.0, -90.0, 180.0, 90.0)


@cache
def coasts() -> tuple[Ring, ...]:
    """Return rings of longitude and latitude; land is inside an odd number of them."""
    text = resources.files("tidings.cli").joinpath("coasts.txt").read_text("utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return tuple(tuple(_parse_corner(corner) for corner in line.split()) for line in lines)


def _parse_corner(text: str) -> tuple[float, float]:
    lon, lat = text.split(",")
    return int(lon) / _HUNDREDTHS, int(lat) / _HUNDREDTHS


@dataclass(frozen=True, slots=True)
class MapProjection:
    """A part of the world on a drawing; degrees of longitude have the width they have at its middle latitude."""

    box: Box
    width: float
    left: float = 0.0
    top: float = 0.0

    @property
    def height(self) -> float:
        return (self.box[3] - self.box[1]) * self._scale

    @property
    def _squeeze(self) -> float:
        return max(0.1, cos(radians((self.box[1] + self.box[3]) / 2)))

    @property
    def _scale(self) -> float:
        return self.width / ((self.box[2] - self.box[0]) * self._squeeze)

    def x(self, lon: float) -> float:
        return self.left + (lon - self.box[0]) * self._squeeze * self._scale

    def y(self, lat: float) -> float:
        return self.top + (self.box[3] - lat) * self._scale

    def rings(self, rings: Sequence[Ring]) -> str:
        """Return the rings that overlap the box as data of an SVG path."""
        near = [ring for ring in rings if self._overlaps(ring)]
        return "".join(
            "M" + "L".join(f"{self.x(lon):.1f} {self.y(lat):.1f}" for lon, lat in ring) + "Z" for ring in near
        )

    def _overlaps(self, ring: Ring) -> bool:
        west, south, east, north = self.box
        lons, lats = [lon for lon, _ in ring], [lat for _, lat in ring]
        return min(lons) <= east and max(lons) >= west and min(lats) <= north and max(lats) >= south
