"""S³-TM as printed: multicast by every subscribed word (equation 3.1), LASP (algorithm 2), and the trie (section 4.1).

Tidings routes by anchors with a companion, places by anchor, and matches with compiled kernels. This cluster does what
the paper says instead, so that its claims can be checked under its own assumptions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidings.matching.segment_matcher import missing_positions
from tidings.matching.trie import TrieMatcher, rank_lexicographically
from tidings.plan.hot_splits import HotSplits
from tidings.plan.words import WordPlan
from tidings.query.conjunctions import Conjunctions
from tidings.ragged import sorted_unique, take_rows
from tidings.routing.router import MatcherBatch
from tidings.routing.shed import ShedDecision
from tidings.text.analyzer import AnalyzedBatch
from tidings_lab.simulated_matchers import ShardHits, to_batch
from tidings_lab.workload import NumberedSubscriptions

PLACEMENTS = ("lasp", "random")
_NO_SHEDDING = ShedDecision()


@dataclass(frozen=True, slots=True)
class LookupLine:
    """The function f of LASP: look-ups per post, linear in the number of distinct words of a trie (figure 4.1)."""

    base: float
    per_word: float

    def of(self, words: int) -> float:
        return self.base + self.per_word * words


class CountingTrie:
    """The trie of section 4.1 as nested dictionaries. It counts its look-ups: every visited node probes each word."""

    def __init__(self, rows: Sequence[Sequence[int]]) -> None:
        self._root: dict[int, Any] = {}
        self.words = len({word for row in rows for word in row})
        for number, row in enumerate(rows):
            node = self._root
            for word in row:
                node = node.setdefault(word, {})
            node.setdefault(-1, []).append(number)

    def visit(self, words: Sequence[int]) -> tuple[list[int], int]:
        """Return the subscriptions whose words are all in the post, and the number of look-ups."""
        found: list[int] = []
        lookups, pending = 0, [self._root]
        while pending:
            node = pending.pop()
            found += node.get(-1, ())
            lookups += len(words)
            pending += [node[word] for word in words if word in node]
        return found, lookups


def list_rows(conjunctions: Conjunctions, rank: Sequence[int]) -> list[list[int]]:
    """Return the words of every subscription in lexicographic order."""
    terms = conjunctions.terms.tolist()
    return [sorted(terms[start:end], key=rank.__getitem__) for start, end in pairwise(conjunctions.starts.tolist())]


def place_by_lasp(
    rows: Sequence[Sequence[int]], splits: HotSplits, matchers: int, line: LookupLine
) -> list[tuple[int, int]]:
    """Return (subscription, matcher) pairs by algorithm 2; `splits` are numbered by word - 1.

    A subscription with other words ignores its hot ones. One with hot words only goes to every matcher of a version of
    its least frequent word; words are numbered from the most to the least frequent.
    """
    held: list[set[int]] = [set() for _ in range(matchers)]
    loads = [line.of(0)] * matchers
    total, squares = sum(loads), sum(load * load for load in loads)
    pairs: list[tuple[int, int]] = []
    eligible_of = _list_matchers(splits)
    is_hot = (splits.counts > 1).tolist()
    for number, row in enumerate(rows):
        regular = [word for word in row if not is_hot[word - 1]]
        chosen = sorted(eligible_of[max(row) - 1])
        if regular:
            eligible = sorted(set().union(*(eligible_of[word - 1] for word in regular)))
            utilities = []
            for matcher in eligible:
                missing = sum(word not in held[matcher] for word in row)
                after = line.of(len(held[matcher]) + missing)
                mean = (total - loads[matcher] + after) / matchers
                variance = (squares - loads[matcher] ** 2 + after**2) / matchers - mean * mean
                utilities.append((line.of(missing) * sqrt(max(0.0, variance)) / mean, missing, matcher))
            chosen = [min(utilities)[2]]
        for matcher in chosen:
            held[matcher].update(row)
            after = line.of(len(held[matcher]))
            total, squares = total - loads[matcher] + after, squares - loads[matcher] ** 2 + after**2
            loads[matcher] = after
            pairs.append((number, matcher))
    return pairs


def place_at_random(
    rows: Sequence[Sequence[int]], splits: HotSplits, rng: np.random.Generator
) -> list[tuple[int, int]]:
    """Return (subscription, matcher) pairs by the default policy: any matcher of a word that is not hot."""
    eligible_of = _list_matchers(splits)
    is_hot, draws = (splits.counts > 1).tolist(), rng.integers(0, 1 << 62, len(rows)).tolist()
    pairs: list[tuple[int, int]] = []
    for number, (row, draw) in enumerate(zip(rows, draws, strict=True)):
        eligible = sorted(set().union(*(eligible_of[word - 1] for word in row if not is_hot[word - 1])))
        chosen = [eligible[draw % len(eligible)]] if eligible else sorted(eligible_of[max(row) - 1])
        pairs += [(number, matcher) for matcher in chosen]
    return pairs


def _list_matchers(splits: HotSplits) -> list[set[int]]:
    matchers = splits.matchers.tolist()
    return [set(matchers[start:end]) for start, end in pairwise(splits.starts.tolist())]


@dataclass(frozen=True, slots=True)
class RoutedPosts:
    """The posts of every matcher that gets any."""

    batches: list[MatcherBatch]


class PrintedCluster:
    """The matchers of a plan with the router, the placement and the trie of the paper."""

    def __init__(
        self, subscribed: NumberedSubscriptions, plan: WordPlan, placement: str, line: LookupLine, seed: int
    ) -> None:
        self.matchers, self._seed = plan.matchers, seed
        self._splits = plan.splits_of(subscribed.terms)
        rank = rank_lexicographically(subscribed.terms)
        rows = list_rows(subscribed.conjunctions, rank)
        if placement == "lasp":
            pairs = np.array(place_by_lasp(rows, self._splits, self.matchers, line), np.int64)
        else:
            pairs = np.array(place_at_random(rows, self._splits, np.random.default_rng([seed, 70])), np.int64)
        self._is_shared = np.bincount(pairs[:, 0], minlength=len(rows)) > 1
        held = [np.sort(pairs[pairs[:, 1] == matcher, 0]) for matcher in range(self.matchers)]
        parts = [subscribed.conjunctions.select(numbers) for numbers in held]
        self._tries = [TrieMatcher(part, rank) for part in parts]
        self.words = np.array([len(np.unique(part.terms)) for part in parts])
        self.copies = len(pairs) / max(1, len(rows))

    def route(self, posts: AnalyzedBatch, shed: ShedDecision = _NO_SHEDDING) -> RoutedPosts:
        """Send every post to the matchers of all its subscribed words; a hot word is a random version of itself."""
        assert not shed.is_on, "the paper's cluster is measured without shedding"
        bounds = posts.bounds.astype(np.int64)
        words, starts = take_rows(posts.terms, bounds[:, 0], bounds[:, 1] - bounds[:, 0])
        row = np.repeat(np.arange(len(posts)), np.diff(starts).astype(np.int64))
        number = words.astype(np.int64) - 1
        versions = (
            np.random.default_rng([self._seed, 71]).integers(0, 1 << 62, len(words)) % self._splits.counts[number]
        )
        matcher = self._splits.matchers[self._splits.starts.astype(np.int64)[number] + versions]
        pairs = sorted_unique(matcher.astype(np.int64) << 32 | row)
        cuts = np.searchsorted(pairs, np.arange(self.matchers + 1) << 32)
        return RoutedPosts(
            [
                _share(number, (pairs[start:end] & 0xFFFFFFFF), words, starts.astype(np.int64))
                for number, (start, end) in enumerate(pairwise(cuts.tolist()))
                if end > start
            ]
        )

    def match_share(self, share: MatcherBatch) -> list[Any]:
        received = to_batch(share)
        return [self._tries[share.matcher].match(received, missing_positions(len(received)))]

    def locate(self, share: MatcherBatch, found: list[Any]) -> ShardHits:
        hits = found[0]
        subscriptions = hits.subscriptions.astype(np.int64)
        return ShardHits(share.posts[hits.posts], subscriptions, self._is_shared[subscriptions])


def _share(
    matcher: int, posts: NDArray[np.int64], words: NDArray[np.uint32], starts: NDArray[np.int64]
) -> MatcherBatch:
    """Return whole posts for one matcher."""
    taken, offsets = take_rows(words, starts[:-1][posts], np.diff(starts)[posts])
    return MatcherBatch(matcher, posts.astype(np.uint32), taken, offsets.astype(np.uint32))
