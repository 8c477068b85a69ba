"""Tag partitioners keep tag sets together, have the defined costs and are deterministic."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.correlate import slow_partitioners as slow
from tests.correlate.definitions import to_arrays, to_tag_sets

from tidings.correlate.partition import disjoint_sets, set_cover
from tidings.correlate.partition.plan import MAX_PARTITIONS, TagPlan, check_partitions, compute_gini
from tidings.correlate.partition.registry import ALGORITHMS, check_algorithm, learn_tag_plan
from tidings.correlate.partition.tagsets import TagSets
from tidings.errors import InputError

every_algorithm = pytest.mark.parametrize("algorithm", ALGORITHMS)
posts = st.lists(st.frozensets(st.integers(0, 25), min_size=1, max_size=5), max_size=40)
numbers = st.sampled_from([1, 2, 3, 7, MAX_PARTITIONS])


def sample(tag_sets) -> TagSets:
    return TagSets.deduplicate(*to_arrays(tag_sets))


def partitions_of(plan: TagPlan) -> list[set[int]]:
    return [set(plan.tags_of(partition).tolist()) for partition in range(plan.partitions)]


def weighted_sets(sets: TagSets) -> list[tuple[frozenset[int], int]]:
    return list(zip(to_tag_sets(sets.tags, sets.starts), sets.weights.tolist(), strict=True))


@every_algorithm
@settings(max_examples=40, deadline=None)
@given(posts, numbers, st.integers(1, 4))
def test_every_tag_set_of_the_sample_is_in_one_partition(algorithm, tag_sets, partitions, partitioners):
    parts = partitions_of(learn_tag_plan(sample(tag_sets), partitions, algorithm, partitioners))
    assert len(parts) == partitions
    assert all(any(post <= part for part in parts) for post in tag_sets)
    assert set().union(*parts) == set().union(*tag_sets)


@every_algorithm
@settings(max_examples=40, deadline=None)
@given(posts, posts, numbers)
def test_loads_and_communication_are_as_defined(algorithm, tag_sets, later, partitions):
    plan = learn_tag_plan(sample(tag_sets), partitions, algorithm)
    measured, parts = plan.measure(sample(later)), partitions_of(plan)
    touches = [[bool(post & part) for part in parts] for post in later]
    assert measured.loads.tolist() == (np.array(touches, int).sum(axis=0) if touches else np.zeros(partitions)).tolist()
    counts = [sum(row) for row in touches if any(row)]
    assert measured.communication == pytest.approx(sum(counts) / len(counts) if counts else 0)
    assert measured.covered == sum(any(post <= part for part in parts) for post in later)
    assert measured.max_load == pytest.approx(max(measured.loads) / sum(counts) if counts else 0)


@every_algorithm
@settings(max_examples=20, deadline=None)
@given(posts, numbers, st.integers(1, 3))
def test_learning_is_deterministic(algorithm, tag_sets, partitions, partitioners):
    once, again = (
        partitions_of(learn_tag_plan(sample(tag_sets), partitions, algorithm, partitioners, seed=3)) for _ in range(2)
    )
    assert once == again


@settings(max_examples=100, deadline=None)
@given(posts, numbers, st.integers(1, 3))
def test_disjoint_sets_are_as_defined_for_any_number_of_partitioners(tag_sets, partitions, partitioners):
    sets = sample(tag_sets)
    parts = partitions_of(learn_tag_plan(sets, partitions, "ds", partitioners))
    expected = slow.ds(weighted_sets(sets), partitions)
    assert sorted(map(sorted, parts)) == sorted(map(sorted, expected))


@pytest.mark.parametrize("rule", set_cover.RULES)
@settings(max_examples=150, deadline=None)
@given(posts, numbers, st.integers(0, 3))
def test_set_cover_is_as_defined(rule, tag_sets, partitions, seed):
    numbered, names = sample(tag_sets).renumber()
    listed = weighted_sets(numbered)
    loads = [slow.count_load(tags, listed) for tags, _ in listed]
    owners, _ = set_cover.cover_tags(numbered, np.array(loads, np.int64), partitions, rule, seed)
    found = partitions_of(TagPlan(partitions, np.arange(len(names), dtype=np.uint32), owners))
    assert found == slow.cover([tags for tags, _ in listed], loads, partitions, rule, seed)


@settings(max_examples=60, deadline=None)
@given(posts, numbers)
def test_ds_with_scl_splits_only_oversized_components(tag_sets, partitions):
    sets = sample(tag_sets)
    numbered, names = sets.renumber()
    component_of_tag, _, loads = disjoint_sets.find_components(numbered)
    copies = {
        int(tag): sum(tag in part for part in partitions_of(learn_tag_plan(sets, partitions, "ds+scl")))
        for tag in names
    }
    for row, tag in enumerate(names.tolist()):
        assert copies[tag] == 1 or loads[component_of_tag[row]] * partitions > len(tag_sets)


def test_small_disjoint_sets_go_to_the_partition_with_the_lowest_load():
    split = [{0, 1}] * 4 + [{0, 2}] * 4 + [{0, 3}] * 4  # one connected set: two partitions own its frequent tag
    small = [{10 + number} for number in range(6)]
    sets = sample(map(frozenset, split + small))
    assert sorted(learn_tag_plan(sets, 3, "ds+scl").measure(sets).loads.tolist()) == [6, 12, 12]


@pytest.mark.parametrize(
    ("loads", "expected"), [([1, 1, 1, 1], 0), ([0, 0, 0, 4], 0.75), ([1, 3], 0.25), ([0, 0], 0), ([5], 0)]
)
def test_gini_of_loads_is_half_their_relative_mean_difference(loads, expected):
    assert compute_gini(np.array(loads)) == pytest.approx(expected)


def test_invalid_settings_raise_an_error():
    with pytest.raises(InputError, match=r"ds\+scl, ds, scc"):
        check_algorithm("astrology")
    for partitions in (0, MAX_PARTITIONS + 1):
        with pytest.raises(InputError, match=r"partitions .*: out of range"):
            check_partitions(partitions)
