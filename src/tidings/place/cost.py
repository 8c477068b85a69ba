"""What it costs a matcher to match a post: a line over the number of distinct words it holds (S³-TM, figure 4.1).

The line is fitted by `tidings lab run cost`, which measures the real matcher on the real workload; the fit that is
stored here came from there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Cost:
    """Nanoseconds a post: `base`, and `each` for every distinct word."""

    base: float
    each: float

    def of(self, words: NDArray[np.integer]) -> NDArray[np.float64]:
        result: NDArray[np.float64] = self.base + self.each * words.astype(np.float64)
        return result


COST = Cost(base=150.0, each=0.01)
