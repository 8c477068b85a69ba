"""Which matcher gets a conjunction, of those responsible for its words. A new placer joins by being listed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from tidings.errors import InputError
from tidings.plan.placement.lasp import place_by_load
from tidings.plan.placement.random import place_at_random
from tidings.plan.placement.rarest import place_by_rarest
from tidings.plan.placement.shard_terms import Ask
from tidings.query.conjunctions import Conjunctions

# (conjunctions, the matcher of each term, how many matchers, a seed, what they hold) → the matcher of each conjunction
Placer = Callable[[Conjunctions, NDArray[np.uint16], int, int, Ask], NDArray[np.uint16]]

PLACERS: Mapping[str, Placer] = {"rarest": place_by_rarest, "lasp": place_by_load, "random": place_at_random}


def placer(name: str) -> Placer:
    """A placer by its name."""
    if name not in PLACERS:
        raise InputError(f"There is no placer called {name!r}; choose one of: {', '.join(sorted(PLACERS))}.")
    return PLACERS[name]
