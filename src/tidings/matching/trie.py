"""The matcher of S³-TM, section 4.1: a trie of sorted subscriptions and a scoped traversal, in plain Python.

A reference implementation, selected by `--matcher trie`; `segment_matcher.py` is the fast one. The paper's
subscriptions are sets of words; what Tidings adds (negations, phrases, regions) is checked when the traversal reaches
a conjunction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tidings.matching.plain_objects import PlainPost, iter_conjunctions, iter_posts, satisfies_residual
from tidings.matching.segment_matcher import Hits
from tidings.query.conjunctions import Conjunctions
from tidings.query.residual import BaseResidual
from tidings.text.analyzer import AnalyzedBatch


@dataclass(slots=True)
class _Node:
    """Represents the terms on its path; `entries` are the (subscription, anchor, residual) with exactly these terms."""

    children: dict[int, _Node] = field(default_factory=dict)
    entries: list[tuple[int, int, BaseResidual]] = field(default_factory=list)


class TrieMatcher:
    """Matches against the conjunctions of `index.compile`, or of a segment (`index.decompile`)."""

    def __init__(self, conjunctions: Conjunctions, rank: Sequence[int] | None = None) -> None:
        """`rank[term]` is the insertion order of the terms of a conjunction; the default is the term id."""
        self._root = _Node()
        self._regions = conjunctions.regions.ravel()
        order = None if rank is None else rank.__getitem__
        for subscription, anchor, terms, residual in iter_conjunctions(conjunctions):
            node = self._root  # a conjunction without terms stays here, where all posts start
            for term in sorted(terms, key=order):
                node = node.children.setdefault(term, _Node())
            node.entries.append((subscription, anchor, residual))

    def match(self, batch: AnalyzedBatch, positions: NDArray[np.float64]) -> Hits:
        """Return the matches; `positions` has longitude and latitude of every post, NaN if it has none."""
        matches = [sorted(self._visit(post)) for post in iter_posts(batch, positions)]
        subscriptions = [subscription for row in matches for subscription in row]
        return Hits(np.array(subscriptions, np.uint32), np.array([len(row) for row in matches], np.uint32))

    def _visit(self, post: PlainPost) -> set[int]:
        """Return the matches by scoped traversal: a child is visited if and only if its term is in the post."""
        matches: set[int] = set()
        pending = [self._root]
        while pending:
            node = pending.pop()
            matches.update(
                subscription
                for subscription, anchor, residual in node.entries
                if anchor in post.anchors and satisfies_residual(residual, self._regions, post)
            )
            pending += [node.children[term] for term in node.children.keys() & post.terms]
        return matches


def rank_lexicographically(terms: Sequence[bytes]) -> list[int]:
    """Return the rank of every term id when terms are ordered as in the paper: alphabetically."""
    rank = [0] * (len(terms) + 1)
    for position, number in enumerate(sorted(range(len(terms)), key=terms.__getitem__)):
        rank[number + 1] = position
    return rank
