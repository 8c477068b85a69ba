"""A word plan says which matcher is responsible for a word. Learned plans join `PARTITIONERS` by being listed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tidings.errors import InputError
from tidings.receive.vocabulary import hash_terms

MAX_MATCHERS = 1024


class WordPlan(Protocol):
    """Every word, known or not, has exactly one matcher; the same one every time."""

    @property
    def algorithm(self) -> str: ...

    @property
    def matchers(self) -> int: ...

    def matcher_of(self, terms: Sequence[bytes]) -> NDArray[np.uint16]: ...


class HashPlan:
    """S³-TM's default: words are hashed to matchers. Learns nothing, knows every word."""

    algorithm = "hash"

    def __init__(self, matchers: int) -> None:
        if not 1 <= matchers <= MAX_MATCHERS:
            raise InputError(f"The number of matchers must be between 1 and {MAX_MATCHERS:,}; {matchers:,} was given.")
        self.matchers = matchers

    def matcher_of(self, terms: Sequence[bytes]) -> NDArray[np.uint16]:
        return (hash_terms(terms) % np.uint64(self.matchers)).astype(np.uint16)


PARTITIONERS: Mapping[str, Callable[[int], WordPlan]] = {"hash": HashPlan}


def partitioner(name: str, matchers: int) -> WordPlan:
    """A plan by the name of its algorithm."""
    if name not in PARTITIONERS:
        known = ", ".join(sorted(PARTITIONERS))
        raise InputError(f"There is no partitioner called {name!r}; choose one of: {known}.")
    return PARTITIONERS[name](matchers)
