"""Sort the terms of conjunctions."""

from __future__ import annotations

import numpy as np
from numba import types, uint32, uint64

from tidings.jit import kernel, read, write

_ONE = np.uint64(1)


@kernel(types.void, write(uint32), write(uint32), read(uint64), write(uint64))
def sort_terms(terms, rarity, starts, ends):  # type: ignore[no-untyped-def]
    """Sort the terms of every conjunction by falling rarity, and drop repetitions; ends[i] is reduced.

    Different terms have different rarities; `rarity` is sorted along.
    """
    for number in range(uint64(ends.size)):
        base = starts[number]
        used = base
        for at in range(base, ends[number]):
            term, value = terms[at], rarity[at]
            slot = used
            while slot > base and rarity[slot - _ONE] < value:
                slot -= _ONE
            if slot > base and terms[slot - _ONE] == term:
                continue
            move = used
            while move > slot:
                terms[move], rarity[move] = terms[move - _ONE], rarity[move - _ONE]
                move -= _ONE
            terms[slot], rarity[slot] = term, value
            used += _ONE
        ends[number] = used
