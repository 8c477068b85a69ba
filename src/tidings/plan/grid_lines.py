"""The grid of a spatial plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

CELLS_PER_AXIS = 128  # of the grid along which trees are split


@dataclass(frozen=True, slots=True)
class GridLines:
    """The inner lines of a grid. The column of a point is the number of `lons` up to it, its row that of `lats`."""

    lons: NDArray[np.float64]
    lats: NDArray[np.float64]

    @classmethod
    def from_posts(cls, positions: NDArray[np.float64], cells: int = CELLS_PER_AXIS) -> GridLines:
        """Return lines with the same number of posts between them, along each axis."""
        known = positions[~np.isnan(positions).any(axis=1)]
        if not len(known):
            return cls.uniform((-180.0, -90.0, 180.0, 90.0), cells)
        quantiles = np.linspace(0, 1, cells + 1)[1:-1]
        lons, lats = (np.unique(np.quantile(known[:, axis], quantiles)) for axis in (0, 1))
        return cls(lons, lats)

    @classmethod
    def uniform(cls, extent: Sequence[float], cells: int) -> GridLines:
        """Return `cells` equal columns and rows of an extent (west, south, east, north); the outer ones are open."""
        west, south, east, north = extent
        return cls(*(np.linspace(low, high, cells + 1)[1:-1] for low, high in ((west, east), (south, north))))

    @property
    def columns(self) -> int:
        return len(self.lons) + 1

    @property
    def rows(self) -> int:
        return len(self.lats) + 1

    def column(self, lon: NDArray[np.float64]) -> NDArray[np.int64]:
        return np.searchsorted(self.lons, lon, side="right").astype(np.int64)

    def row(self, lat: NDArray[np.float64]) -> NDArray[np.int64]:
        return np.searchsorted(self.lats, lat, side="right").astype(np.int64)
