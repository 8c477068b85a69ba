"""The paper's matcher: S³-TM, section 4.1, a trie of sorted subscriptions and a scoped traversal. Plain Python.

It is here to be read and to be compared with; `flat.py` does the work. The paper's subscriptions are sets of words;
what Tidings adds to them (negations, phrases, regions) is verified when the traversal reaches a conjunction.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tidings.matching.segment_matcher import Hits
from tidings.query.conjunctions import Conjunctions
from tidings.query.geo.geometry import lies_inside
from tidings.query.residual import BaseProgram
from tidings.text.analyzer import Received


@dataclass(frozen=True, slots=True)
class _Post:
    words: Set[int]
    sequence: Sequence[int]  # the words in order, for phrases
    lon: float
    lat: float


@dataclass(slots=True)
class _Node:
    """Stands for the words on the way here. `held` are the subscriptions that ask for just these, and what else."""

    children: dict[int, _Node] = field(default_factory=dict)
    held: list[tuple[int, BaseProgram]] = field(default_factory=list)


class TrieMatcher:
    """Matches against conjunctions as `index.compile` gives them, or `index.decompile` from a segment."""

    def __init__(self, conjunctions: Conjunctions, rank: Sequence[int] | None = None) -> None:
        """`rank[term]` says in which order the words of a conjunction are put in: by term number unless given."""
        self._root = _Node()
        self._regions = conjunctions.regions.ravel()
        order = None if rank is None else rank.__getitem__
        terms, starts = conjunctions.terms.tolist(), conjunctions.starts.tolist()
        besides = zip(conjunctions.program.tolist(), conjunctions.anchor_region.tolist(), strict=True)
        for number, (owner, (program, region)) in enumerate(zip(conjunctions.owner.tolist(), besides, strict=True)):
            words = sorted(set(terms[starts[number] : starts[number + 1]]), key=order)
            alone = BaseProgram((), (), ((0, region),) if region >= 0 else ())
            self._insert(words, owner, conjunctions.programs[program - 1] if program else alone)

    def _insert(self, words: Sequence[int], owner: int, program: BaseProgram) -> None:
        """Walk down, making what is missing; a conjunction without words stays at the root, which all posts visit."""
        node = self._root
        for word in words:
            node = node.children.setdefault(word, _Node())
        node.held.append((owner, program))

    def match(self, received: Received, positions: NDArray[np.float64]) -> Hits:
        """`positions` holds longitude and latitude of every post, NaN where it has none."""
        counts: list[int] = []
        subscriptions: list[int] = []
        for number, (start, end) in enumerate(received.bounds.tolist()):
            sequence = received.terms[start:end].tolist()
            found = self._visit(_Post(set(sequence), sequence, *positions[number].tolist()))
            counts.append(len(found))
            subscriptions += found
        return Hits(np.array(subscriptions, np.uint32), np.array(counts, np.uint32))

    def _visit(self, post: _Post) -> set[int]:
        """The scoped traversal: a child is visited if and only if its word is in the post."""
        found: set[int] = set()
        to_visit = [self._root]
        while to_visit:
            node = to_visit.pop()
            found.update(owner for owner, program in node.held if self._holds(program, post))
            to_visit += [node.children[word] for word in node.children.keys() & post.words]
        return found

    def _holds(self, program: BaseProgram, post: _Post) -> bool:
        """Whether the post satisfies what a conjunction asks for besides its words."""
        return (
            post.words.isdisjoint(program.forbidden)
            and all(_holds_phrase(terms, post.sequence) != negated for negated, terms in program.phrases)
            and all(
                lies_inside(self._regions, region, post.lon, post.lat) != negated for negated, region in program.regions
            )
        )


def lexicographic(terms: Sequence[bytes]) -> list[int]:
    """The rank of every term number when terms are ordered as the paper orders them: by their letters."""
    rank = [0] * (len(terms) + 1)
    for place, number in enumerate(sorted(range(len(terms)), key=terms.__getitem__)):
        rank[number + 1] = place
    return rank


def _holds_phrase(terms: Sequence[int], sequence: Sequence[int]) -> bool:
    """Whether the terms stand next to each other in the sequence."""
    wanted = list(terms)
    return any(sequence[at : at + len(wanted)] == wanted for at in range(len(sequence) - len(wanted) + 1))
