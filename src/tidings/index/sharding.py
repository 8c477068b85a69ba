"""Sharing conjunctions out: everything to one shard, or each to a matcher its plan makes responsible."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tidings.index.manifest import PlanRecord
from tidings.plan.hot_splits import Versions
from tidings.plan.placement.placer import placer
from tidings.plan.placement.shard_terms import Ask
from tidings.plan.words import WordPlan
from tidings.query.anchors import Leads, lead_terms
from tidings.query.conjunctions import Conjunctions

if TYPE_CHECKING:
    from tidings.index.spatial_shards import AreaLeads

_NONE = np.zeros(0, np.uint32)


@dataclass(frozen=True, slots=True)
class Share:
    """What one shard gets: conjunctions with owners numbered anew, the subscriptions these are, and their leads."""

    number: int
    conjunctions: Conjunctions
    subscriptions: NDArray[np.int64]
    leads: Leads | None  # what leads posts to the shard; None where there is only one
    words: NDArray[np.uint32]  # all terms that matter there
    phrase_words: NDArray[np.uint32]  # those that stand in phrases
    split: NDArray[np.uint32]  # those that are hot and have several versions
    shared: NDArray[np.uint8]
    areas: AreaLeads | None = None  # what leads posts to the shard by their place; None where words alone do


def share_out(
    conjunctions: Conjunctions,
    plan: PlanRecord | None,
    words: WordPlan | None,
    text_of: Callable[[NDArray[np.uint32]], Sequence[bytes]],
    held: Ask,
) -> Iterator[Share]:
    """The share of every shard that gets anything. Conjunctions of one owner must stand together.

    `words` is the plan of words that `plan` speaks of, `held` tells what the shards hold already.
    """
    if plan is None or words is None:
        count = int(conjunctions.owner.max()) + 1 if len(conjunctions) else 0
        phrases = phrase_words(conjunctions)
        yield Share(0, conjunctions, np.arange(count), None, _NONE, phrases, _NONE, np.zeros(count, np.uint8))
        return
    versions = _versions(conjunctions, words, text_of)
    split = np.flatnonzero(versions.counts > 1).astype(np.uint32)
    row, matcher = _placed(conjunctions, plan, versions, split, held)
    spread = _is_spread(conjunctions.owner[row], matcher)
    for number in np.unique(matcher).tolist():
        part = conjunctions.select(row[matcher == number])
        owners, local = np.unique(part.owner, return_inverse=True)
        mine = replace(part, owner=local.astype(np.uint32))
        needed = (needed_words(part), phrase_words(part), np.intersect1d(part.terms, split))
        yield Share(number, mine, owners.astype(np.int64), Leads.of(part, split), *needed, spread[owners])


def _placed(
    conjunctions: Conjunctions,
    plan: PlanRecord,
    versions: Versions,
    split: NDArray[np.uint32],
    held: Ask,
) -> tuple[NDArray[np.intp], NDArray[np.uint16]]:
    """(conjunction, matcher) side by side: one matcher each, or all with a version of the hot word it is led by."""
    matcher_of = versions.matchers[versions.starts[:-1].astype(np.int64)]
    leads = lead_terms(conjunctions, split)
    eligible = _without_hot(conjunctions, leads, split)
    chosen = placer(plan.placer)(eligible, matcher_of, plan.matchers, plan.seed, held)
    is_hot = np.isin(leads, split)
    counts = np.where(is_hot, versions.counts[leads], 1)
    row = np.repeat(np.arange(len(conjunctions)), counts)
    nth = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    by_version = versions.matchers[np.minimum(versions.starts[:-1][leads].astype(np.int64)[row] + nth, _last(versions))]
    pairs = np.unique(row << 16 | np.where(is_hot[row], by_version, chosen[row]))  # versions may share a matcher
    return pairs >> 16, (pairs & 0xFFFF).astype(np.uint16)


def _last(versions: Versions) -> int:
    return len(versions.matchers) - 1


def _without_hot(conjunctions: Conjunctions, leads: NDArray[np.uint32], split: NDArray[np.uint32]) -> Conjunctions:
    """What conjunctions may be placed by: their regular words, and of one that has none the word it is led by."""
    if not len(split):
        return conjunctions
    row = np.repeat(np.arange(len(conjunctions)), np.diff(conjunctions.starts).astype(np.int64))
    kept = ~np.isin(conjunctions.terms, split) | (conjunctions.terms == leads[row])
    counts = np.bincount(row[kept], minlength=len(conjunctions))
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.uint64)
    return replace(conjunctions, terms=conjunctions.terms[kept], starts=starts)


def needed_words(part: Conjunctions) -> NDArray[np.uint32]:
    """All terms that decide anything: required ones, and those of the programs in use."""
    others = {term for program in part.programs_in_use() for term in program.terms()}
    return np.union1d(part.terms, np.fromiter(others, np.uint32, len(others)))


def phrase_words(part: Conjunctions) -> NDArray[np.uint32]:
    """The terms that stand in phrases: only behind these does a gap in a post tell anything."""
    held = {term for program in part.programs_in_use() for _, terms in program.phrases for term in terms}
    return np.array(sorted(held), np.uint32)


def _versions(
    conjunctions: Conjunctions, words: WordPlan, text_of: Callable[[NDArray[np.uint32]], Sequence[bytes]]
) -> Versions:
    """The matchers of every term by its number; those of terms that do not occur say nothing."""
    used = np.unique(conjunctions.terms)
    found = words.versions_of(text_of(used))
    counts = np.ones(int(used.max()) + 1 if len(used) else 1, np.int64)
    counts[used] = found.counts
    starts = np.concatenate([[0], np.cumsum(counts)])
    matchers = np.zeros(int(starts[-1]), np.uint16)
    matchers[np.repeat(np.isin(np.arange(len(counts)), used), counts)] = found.matchers
    return Versions(matchers, starts.astype(np.uint64))


def _is_spread(owner: NDArray[np.uint32], matcher: NDArray[np.uint16]) -> NDArray[np.uint8]:
    """1 for each owner whose conjunctions are on several matchers."""
    pairs = np.unique(owner.astype(np.uint64) << np.uint64(16) | matcher)
    return (np.bincount((pairs >> np.uint64(16)).astype(np.int64)) > 1).astype(np.uint8)
