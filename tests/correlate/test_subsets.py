"""Counting subsets: the same numbers as the definition gives, whatever is added and taken away."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.correlate.definitions import as_dict, coefficients, flat

from tidings.correlate.partition.subset_counts import MAX_TAGS, Subsets
from tidings.correlate.partition.tagsets import TagSets

posts = st.lists(st.frozensets(st.integers(0, 12), min_size=1, max_size=6), max_size=30)


def added(subsets: Subsets, said, weight: int = 1) -> Subsets:
    subsets.add(*flat(said), np.full(len(said), weight, np.int64))
    return subsets


@settings(max_examples=200, deadline=None)
@given(posts, st.integers(1, 3))
def test_supports_and_unions_are_as_defined(said, min_support):
    assert as_dict(added(Subsets(), said).report(min_support)) == coefficients(said, min_support)


@settings(max_examples=100, deadline=None)
@given(posts, posts)
def test_what_is_taken_away_was_never_there(kept, gone):
    subsets = added(added(added(Subsets(), gone), kept), gone, -1)
    assert as_dict(subsets.report(1)) == coefficients(kept)


def test_a_post_with_the_most_tags_counts_for_all_its_subsets():
    report = added(Subsets(), [frozenset(range(5, 5 + MAX_TAGS))] * 3).report(3)
    assert len(report) == 2**MAX_TAGS - 1 - MAX_TAGS
    assert (report.support == 3).all()
    assert (report.union == 3).all()


def test_many_sets_make_the_table_grow():
    said = [frozenset({number, number + 1, 7 * number % 501}) for number in range(3000)]
    assert as_dict(added(Subsets(), said).report(1)) == _by_tag(said)


@settings(max_examples=100, deadline=None)
@given(posts, st.integers(1, 4))
def test_shares_hold_every_tag_set_once_and_equal_ones_together(said, partitioners):
    sets = TagSets.distinct(*flat(said))
    shares = sets.shares(partitioners)
    together = TagSets.together(shares)
    assert len(shares) == partitioners
    assert sorted(_weighed(together)) == sorted(_weighed(sets))
    assert dict(_weighed(sets)) == {tuple(sorted(post)): said.count(post) for post in said}


def _weighed(sets: TagSets) -> list[tuple[tuple[int, ...], int]]:
    bounds = sets.starts.astype(int)
    return [
        (tuple(sets.tags[bounds[row] : bounds[row + 1]].tolist()), int(sets.weights[row])) for row in range(len(sets))
    ]


def _by_tag(said):
    """The definition, quick enough for thousands of posts."""
    from itertools import combinations

    of_tag: dict[int, set[int]] = {}
    for number, post in enumerate(said):
        for tag in post:
            of_tag.setdefault(tag, set()).add(number)
    together = {frozenset(pair) for post in said for size in (2, 3) for pair in combinations(sorted(post), size)}
    return {
        found: (
            len(set.intersection(*(of_tag[tag] for tag in found))),
            len(set.union(*(of_tag[tag] for tag in found))),
        )
        for found in together
    }
