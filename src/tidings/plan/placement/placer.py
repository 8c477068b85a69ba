"""Placers: which matcher gets a conjunction, of those responsible for its terms. Add a new placer to `PLACERS`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from tidings.errors import InputError
from tidings.plan.placement.lasp import place_by_load
from tidings.plan.placement.random import place_at_random
from tidings.plan.placement.rarest import place_by_anchor
from tidings.plan.placement.shard_terms import ReadShardTerms
from tidings.query.conjunctions import Conjunctions

# (conjunctions, matcher of each term, number of matchers, seed, shard terms) → matcher of each conjunction
Placer = Callable[[Conjunctions, NDArray[np.uint16], int, int, ReadShardTerms], NDArray[np.uint16]]

PLACERS: Mapping[str, Placer] = {"rarest": place_by_anchor, "lasp": place_by_load, "random": place_at_random}


def get_placer(name: str) -> Placer:
    """Return a placer by its name; InputError lists the names."""
    if name not in PLACERS:
        raise InputError(f"placement: no placer is called {name!r}. Choose one of: {', '.join(sorted(PLACERS))}.")
    return PLACERS[name]
