"""Sharing conjunctions out: everything to one shard, or each to a matcher its plan makes responsible."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tidings.index.conjunctions import Conjunctions
from tidings.index.lead import Leads
from tidings.index.manifest import PlanRecord
from tidings.partition.words.plan import partitioner
from tidings.place.placer import placer


@dataclass(frozen=True, slots=True)
class Share:
    """What one shard gets: conjunctions with owners numbered anew, the subscriptions these are, and their leads."""

    number: int
    conjunctions: Conjunctions
    subscriptions: NDArray[np.int64]
    leads: Leads | None  # what leads posts to the shard; None where there is only one
    words: NDArray[np.uint32]  # all terms that matter there
    phrase_words: NDArray[np.uint32]  # those that stand in phrases
    shared: NDArray[np.uint8]


def share_out(
    conjunctions: Conjunctions,
    plan: PlanRecord | None,
    text_of: Callable[[NDArray[np.uint32]], Sequence[bytes]],
) -> Iterator[Share]:
    """The share of every shard that gets anything. Conjunctions of one owner must stand together."""
    if plan is None:
        count = int(conjunctions.owner.max()) + 1 if len(conjunctions) else 0
        none = np.zeros(0, np.uint32)
        phrases = phrase_words(conjunctions)
        yield Share(0, conjunctions, np.arange(count), None, none, phrases, np.zeros(count, np.uint8))
        return
    place = placer(plan.placer)
    matcher, _ = place(conjunctions, _matcher_of(conjunctions, plan, text_of), plan.matchers, plan.seed)
    spread = _is_spread(conjunctions.owner, matcher)
    for number in np.unique(matcher).tolist():
        rows = np.flatnonzero(matcher == number)
        part = conjunctions.select(rows)
        owners, local = np.unique(part.owner, return_inverse=True)
        mine = replace(part, owner=local.astype(np.uint32))
        words = (needed_words(part), phrase_words(part))
        yield Share(number, mine, owners.astype(np.int64), Leads.of(part), *words, spread[owners])


def needed_words(part: Conjunctions) -> NDArray[np.uint32]:
    """All terms that decide anything: required ones, and those of the programs in use."""
    others = {term for program in part.programs_in_use() for term in program.terms()}
    return np.union1d(part.terms, np.fromiter(others, np.uint32, len(others)))


def phrase_words(part: Conjunctions) -> NDArray[np.uint32]:
    """The terms that stand in phrases: only behind these does a gap in a post tell anything."""
    held = {term for program in part.programs_in_use() for _, terms in program.phrases for term in terms}
    return np.array(sorted(held), np.uint32)


def _matcher_of(
    conjunctions: Conjunctions, plan: PlanRecord, text_of: Callable[[NDArray[np.uint32]], Sequence[bytes]]
) -> NDArray[np.uint16]:
    """The matcher of every term that occurs, by its number."""
    used = np.unique(conjunctions.terms)
    matcher_of = np.zeros(int(used.max()) + 1 if len(used) else 1, np.uint16)
    matcher_of[used] = partitioner(plan.algorithm, plan.matchers).matcher_of(text_of(used))
    return matcher_of


def _is_spread(owner: NDArray[np.uint32], matcher: NDArray[np.uint16]) -> NDArray[np.uint8]:
    """1 for each owner whose conjunctions are on several matchers."""
    pairs = np.unique(owner.astype(np.uint64) << np.uint64(16) | matcher)
    return (np.bincount((pairs >> np.uint64(16)).astype(np.int64)) > 1).astype(np.uint8)
