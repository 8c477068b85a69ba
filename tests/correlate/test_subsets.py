"""Subset counts equal the definition, also after sets were added and removed."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.correlate.definitions import count_coefficients, to_arrays, to_dict

from tidings.correlate.partition.subset_counts import MAX_TAGS, SubsetCounts
from tidings.correlate.partition.tagsets import TagSets

post_lists = st.lists(st.frozensets(st.integers(0, 12), min_size=1, max_size=6), max_size=30)


def add(subsets: SubsetCounts, posts, weight: int = 1) -> SubsetCounts:
    subsets.add(*to_arrays(posts), np.full(len(posts), weight, np.int64))
    return subsets


@settings(max_examples=200, deadline=None)
@given(post_lists, st.integers(1, 3))
def test_support_and_union_equal_the_definition(posts, min_support):
    assert to_dict(add(SubsetCounts(), posts).report(min_support)) == count_coefficients(posts, min_support)


@settings(max_examples=100, deadline=None)
@given(post_lists, post_lists)
def test_removed_sets_leave_no_trace(kept, removed):
    subsets = add(add(add(SubsetCounts(), removed), kept), removed, -1)
    assert to_dict(subsets.report(1)) == count_coefficients(kept)


def test_post_with_the_maximum_of_tags_counts_for_all_its_subsets():
    report = add(SubsetCounts(), [frozenset(range(5, 5 + MAX_TAGS))] * 3).report(3)
    assert len(report) == 2**MAX_TAGS - 1 - MAX_TAGS
    assert (report.support == 3).all()
    assert (report.union == 3).all()


def test_table_grows_with_many_sets():
    posts = [frozenset({number, number + 1, 7 * number % 501}) for number in range(3000)]
    assert to_dict(add(SubsetCounts(), posts).report(1)) == _count_by_tag(posts)


@settings(max_examples=100, deadline=None)
@given(post_lists, st.integers(1, 4))
def test_split_by_hash_keeps_every_tag_set_and_equal_ones_together(posts, partitioners):
    sets = TagSets.deduplicate(*to_arrays(posts))
    shares = sets.split_by_hash(partitioners)
    combined = TagSets.concat(shares)
    assert len(shares) == partitioners
    assert sorted(_to_weights(combined)) == sorted(_to_weights(sets))
    assert dict(_to_weights(sets)) == {tuple(sorted(post)): posts.count(post) for post in posts}


def _to_weights(sets: TagSets) -> list[tuple[tuple[int, ...], int]]:
    bounds = sets.starts.astype(int)
    return [
        (tuple(sets.tags[bounds[row] : bounds[row + 1]].tolist()), int(sets.weights[row])) for row in range(len(sets))
    ]


def _count_by_tag(posts):
    """The definition, fast enough for thousands of posts."""
    of_tag: dict[int, set[int]] = {}
    for number, post in enumerate(posts):
        for tag in post:
            of_tag.setdefault(tag, set()).add(number)
    tag_sets = {frozenset(pair) for post in posts for size in (2, 3) for pair in combinations(sorted(post), size)}
    return {
        tags: (
            len(set.intersection(*(of_tag[tag] for tag in tags))),
            len(set.union(*(of_tag[tag] for tag in tags))),
        )
        for tags in tag_sets
    }
