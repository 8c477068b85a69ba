"""The definitions of tag set counts, as slow code: posts are sets of tags, counted one by one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations, pairwise

import numpy as np

Tags = frozenset[int]


def subsets(tags: Tags) -> Iterable[Tags]:
    for size in range(1, len(tags) + 1):
        yield from map(frozenset, combinations(sorted(tags), size))


def count_coefficients(posts: Sequence[Tags], min_support: int = 1) -> dict[Tags, tuple[int, int]]:
    """Return (posts with all tags, posts with any) of every set of two or more tags that occur together."""
    tag_sets = {tags for post in posts for tags in subsets(post) if len(tags) > 1}
    counts = {
        tags: (sum(tags <= post for post in posts), sum(bool(tags & post) for post in posts)) for tags in tag_sets
    }
    return {tags: count for tags, count in counts.items() if count[0] >= min_support}


def to_arrays(posts: Iterable[Iterable[int]]) -> tuple[np.ndarray, np.ndarray]:
    rows = [sorted(post) for post in posts]
    starts = np.cumsum([0, *map(len, rows)]).astype(np.uint64)
    return np.array([tag for row in rows for tag in row], np.uint32), starts


def to_tag_sets(tags: np.ndarray, starts: np.ndarray) -> list[Tags]:
    return [frozenset(tags[start:end].tolist()) for start, end in pairwise(starts.astype(int).tolist())]


def to_dict(counted) -> dict[Tags, tuple[int, int]]:
    listed = to_tag_sets(counted.tags, counted.starts)
    assert len(set(listed)) == len(listed), "a set was reported twice"
    return dict(zip(listed, zip(counted.support.tolist(), counted.union.tolist(), strict=True), strict=True))
