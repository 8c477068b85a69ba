"""Placers: which matcher gets a conjunction, of those responsible for its terms. Add a new placer to `PLACERS`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import cache

import numpy as np
from numpy.typing import NDArray

from tidings.errors import InputError
from tidings.log import Event
from tidings.plan.placement.anchor import place_by_anchor
from tidings.plan.placement.lasp import place_as_printed, place_by_load
from tidings.plan.placement.random import place_at_random
from tidings.plan.placement.shard_terms import ReadShardTerms
from tidings.query.conjunctions import Conjunctions

LOG = logging.getLogger("tidings.plan")

# (conjunctions, matcher of each term, number of matchers, seed, shard terms) → matcher of each conjunction
Placer = Callable[[Conjunctions, NDArray[np.uint16], int, int, ReadShardTerms], NDArray[np.uint16]]

PLACERS: Mapping[str, Placer] = {
    "anchor": place_by_anchor,
    "lasp": place_by_load,
    "lasp-printed": place_as_printed,
    "random": place_at_random,
}
_DEPRECATED = {"rarest": "anchor"}


@cache  # so that a process warns once
def check_placement(name: str) -> str:
    """Return the current name of a placement, and log a warning for a deprecated one; InputError lists the names."""
    if name in _DEPRECATED:
        LOG.warning(Event("placement is deprecated and will be removed in 1.0", old=name, new=_DEPRECATED[name]))
        return _DEPRECATED[name]
    if name not in PLACERS:
        raise InputError(f"placement: no placer is called {name!r}. Choose one of: {', '.join(sorted(PLACERS))}.")
    return name
