"""The matcher of S³-TM, section 4.1: a trie of sorted subscriptions and a scoped traversal, in plain Python.

A reference implementation; `segment_matcher.py` is the fast one. The paper's subscriptions are sets of words; what
Tidings adds (negations, phrases, regions) is checked when the traversal reaches a conjunction.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tidings.matching.segment_matcher import Hits
from tidings.query.conjunctions import Conjunctions
from tidings.query.geo.geometry import contains
from tidings.query.residual import BaseResidual
from tidings.text.analyzer import AnalyzedBatch


@dataclass(frozen=True, slots=True)
class _Post:
    words: Set[int]
    sequence: Sequence[int]  # the words in order, for phrases
    lon: float
    lat: float


@dataclass(slots=True)
class _Node:
    """Represents the words on its path; `entries` are the (subscription, residual) with exactly these words."""

    children: dict[int, _Node] = field(default_factory=dict)
    entries: list[tuple[int, BaseResidual]] = field(default_factory=list)


class TrieMatcher:
    """Matches against the conjunctions of `index.compile`, or of a segment (`index.decompile`)."""

    def __init__(self, conjunctions: Conjunctions, rank: Sequence[int] | None = None) -> None:
        """`rank[term]` is the insertion order of the words of a conjunction; the default is the term id."""
        self._root = _Node()
        self._regions = conjunctions.regions.ravel()
        order = None if rank is None else rank.__getitem__
        terms, starts = conjunctions.terms.tolist(), conjunctions.starts.tolist()
        conditions = zip(conjunctions.residual.tolist(), conjunctions.anchor_region.tolist(), strict=True)
        for number, (subscription, (residual, region)) in enumerate(
            zip(conjunctions.subscription.tolist(), conditions, strict=True)
        ):
            words = sorted(set(terms[starts[number] : starts[number + 1]]), key=order)
            region_only = BaseResidual((), (), ((0, region),) if region >= 0 else ())
            self._insert(words, subscription, conjunctions.residuals[residual - 1] if residual else region_only)

    def _insert(self, words: Sequence[int], subscription: int, residual: BaseResidual) -> None:
        """Add a conjunction, creating missing nodes; without words it stays at the root, which all posts visit."""
        node = self._root
        for word in words:
            node = node.children.setdefault(word, _Node())
        node.entries.append((subscription, residual))

    def match(self, batch: AnalyzedBatch, positions: NDArray[np.float64]) -> Hits:
        """Return the matches; `positions` has longitude and latitude of every post, NaN if it has none."""
        counts: list[int] = []
        subscriptions: list[int] = []
        for number, (start, end) in enumerate(batch.bounds.tolist()):
            sequence = batch.terms[start:end].tolist()
            matches = self._visit(_Post(set(sequence), sequence, *positions[number].tolist()))
            counts.append(len(matches))
            subscriptions += sorted(matches)
        return Hits(np.array(subscriptions, np.uint32), np.array(counts, np.uint32))

    def _visit(self, post: _Post) -> set[int]:
        """Return the matches by scoped traversal: a child is visited if and only if its word is in the post."""
        matches: set[int] = set()
        pending = [self._root]
        while pending:
            node = pending.pop()
            matches.update(subscription for subscription, residual in node.entries if self._satisfies(residual, post))
            pending += [node.children[word] for word in node.children.keys() & post.words]
        return matches

    def _satisfies(self, residual: BaseResidual, post: _Post) -> bool:
        """Whether the post satisfies the conditions of a conjunction other than its words."""
        return (
            post.words.isdisjoint(residual.forbidden)
            and all(_has_phrase(terms, post.sequence) != negated for negated, terms in residual.phrases)
            and all(
                contains(self._regions, region, post.lon, post.lat) != negated for negated, region in residual.regions
            )
        )


def rank_lexicographically(terms: Sequence[bytes]) -> list[int]:
    """Return the rank of every term id when terms are ordered as in the paper: alphabetically."""
    rank = [0] * (len(terms) + 1)
    for position, number in enumerate(sorted(range(len(terms)), key=terms.__getitem__)):
        rank[number + 1] = position
    return rank


def _has_phrase(terms: Sequence[int], sequence: Sequence[int]) -> bool:
    """Whether the terms are next to each other in the sequence."""
    phrase = list(terms)
    return any(sequence[at : at + len(phrase)] == phrase for at in range(len(sequence) - len(phrase) + 1))
