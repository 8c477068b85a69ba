"""What it costs a matcher to match a post: a line over the number of distinct words it holds (S³-TM, figure 4.1).

The line is fitted by the benchmark (`python -m tidings_lab.bench --only plans`), which measures the real matcher on
the real workload; what it found last is in docs/benchmarks.md, and here.
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


COST = Cost(base=10.0, each=0.0241)
