"""What everything about tag sets means, said slowly: posts are sets of tags, counted one by one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations, pairwise

import numpy as np

Tags = frozenset[int]


def subsets(tags: Tags) -> Iterable[Tags]:
    for size in range(1, len(tags) + 1):
        yield from map(frozenset, combinations(sorted(tags), size))


def coefficients(posts: Sequence[Tags], min_support: int = 1) -> dict[Tags, tuple[int, int]]:
    """(posts with all tags, posts with any of them) of every set of two tags or more that occurs together."""
    together = {found for post in posts for found in subsets(post) if len(found) > 1}
    counted = {
        found: (sum(found <= post for post in posts), sum(bool(found & post) for post in posts)) for found in together
    }
    return {found: counts for found, counts in counted.items() if counts[0] >= min_support}


def flat(posts: Iterable[Iterable[int]]) -> tuple[np.ndarray, np.ndarray]:
    rows = [sorted(post) for post in posts]
    starts = np.cumsum([0, *map(len, rows)]).astype(np.uint64)
    return np.array([tag for row in rows for tag in row], np.uint32), starts


def rows(tags: np.ndarray, starts: np.ndarray) -> list[Tags]:
    return [frozenset(tags[start:end].tolist()) for start, end in pairwise(starts.astype(int).tolist())]


def as_dict(counted) -> dict[Tags, tuple[int, int]]:
    listed = rows(counted.tags, counted.starts)
    assert len(set(listed)) == len(listed), "a set was reported twice"
    return dict(zip(listed, zip(counted.support.tolist(), counted.union.tolist(), strict=True), strict=True))
