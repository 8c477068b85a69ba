"""Which matcher gets a conjunction, of those responsible for its words. A new placer joins by being listed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from tidings.errors import InputError
from tidings.index.conjunctions import Conjunctions
from tidings.place.random import place_at_random
from tidings.place.rarest import place_by_rarest
from tidings.place.together import Placement

Placer = Callable[[Conjunctions, NDArray[np.uint16], int, int], Placement]

PLACERS: Mapping[str, Placer] = {"random": place_at_random, "rarest": place_by_rarest}


def placer(name: str) -> Placer:
    """A placer by its name."""
    if name not in PLACERS:
        raise InputError(f"There is no placer called {name!r}; choose one of: {', '.join(sorted(PLACERS))}.")
    return PLACERS[name]
