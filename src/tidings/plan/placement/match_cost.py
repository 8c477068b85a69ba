"""What matching a post costs: linear in the number of distinct terms of a matcher (S³-TM, figure 4.1).

The benchmark (`python -m tidings_lab.bench --only plans`) fits the line by measuring the real matcher on the real
workload. The last result is in docs/benchmarks.md, and here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class MatchCost:
    """Nanoseconds per post: `base_ns`, plus `term_ns` for every distinct term."""

    base_ns: float
    term_ns: float

    def of(self, terms: NDArray[np.integer]) -> NDArray[np.float64]:
        """Return the cost per post for each number of terms."""
        result: NDArray[np.float64] = self.base_ns + self.term_ns * terms.astype(np.float64)
        return result


DEFAULT_MATCH_COST = MatchCost(base_ns=10.0, term_ns=0.0241)
