"""The grid that spatial plans are cut along."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LINES = 128  # of the grid that trees are cut along, in each direction


@dataclass(frozen=True, slots=True)
class Lines:
    """A grid: a point lies in the column that many `lons` (and the row that many `lats`) are not beyond."""

    lons: NDArray[np.float64]
    lats: NDArray[np.float64]

    @classmethod
    def by_posts(cls, positions: NDArray[np.float64], lines: int = LINES) -> Lines:
        """Lines between which equally many posts lie, in each direction."""
        known = positions[~np.isnan(positions).any(axis=1)]
        if not len(known):
            return cls.even((-180.0, -90.0, 180.0, 90.0), lines)
        shares = np.linspace(0, 1, lines + 1)[1:-1]
        lons, lats = (np.unique(np.quantile(known[:, axis], shares)) for axis in (0, 1))
        return cls(lons, lats)

    @classmethod
    def even(cls, extent: Sequence[float], cells: int) -> Lines:
        """So many equal columns and rows of an extent (west, south, east, north); the outer ones reach on."""
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
