"""The topology as a whole: what is reported is what one place that sees everything would count."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.correlate.definitions import as_dict, coefficients, flat, rows

from tidings.correlate.audit import audit, centralised
from tidings.correlate.calculator import Calculator
from tidings.correlate.partition.plan import TagPlan
from tidings.correlate.partition.registry import ALGORITHMS, learn
from tidings.correlate.partition.tagsets import TagSets
from tidings.correlate.posts import TaggedPosts
from tidings.correlate.reference_topology import calculated, correlate
from tidings.correlate.settings import Settings
from tidings.correlate.tag_router import Disseminator, Notifications
from tidings.correlate.tag_routing_pipeline import Dissemination, in_this_process
from tidings.correlate.time_slices import stretches
from tidings.correlate.tracker import Reports, tracked

timed = st.lists(
    st.tuples(st.integers(0, 40), st.frozensets(st.integers(0, 9), min_size=1, max_size=4)), min_size=1, max_size=60
)
choices = st.fixed_dictionaries(
    {
        "slide_us": st.just(4),
        "window_us": st.sampled_from([4, 8, 20]),
        "partitions": st.integers(1, 4),
        "partitioners": st.integers(1, 3),
        "algorithm": st.sampled_from(ALGORITHMS),
        "sightings": st.integers(1, 3),
        "checked_every": st.integers(1, 9),
        "threshold": st.sampled_from([0.01, 0.5]),
        "min_support": st.integers(1, 2),
        "posts_a_partition": st.sampled_from([None, 3]),
    }
)


def tagged(said) -> TaggedPosts:
    ordered = sorted(said, key=lambda post: post[0])
    return TaggedPosts(np.array([time for time, _ in ordered], np.int64), *flat(tags for _, tags in ordered))


def by_definition(said, chosen: Settings, min_support: int) -> dict:
    """(window end, tags) -> (support, union)"""
    ends = {time // chosen.slide_us + more for time, _ in said for more in range(1, chosen.panes + 1)}
    found = {}
    for end in ends:
        inside = [tags for time, tags in said if end - chosen.panes <= time // chosen.slide_us < end]
        found |= {(end, tags): counts for tags, counts in coefficients(inside, min_support).items()}
    return found


def listed(reports) -> dict:
    keys = list(zip(reports.ends.tolist(), rows(reports.counted.tags, reports.counted.starts), strict=True))
    assert len(set(keys)) == len(keys), "a set of tags has two coefficients in a window"
    counts = zip(reports.counted.support.tolist(), reports.counted.union.tolist(), strict=True)
    return dict(zip(keys, counts, strict=True))


@settings(max_examples=300, deadline=None)
@given(timed, choices)
def test_every_coefficient_is_exact_whatever_happens_to_the_partitions(said, chosen):
    chosen = Settings(**chosen)
    found, exact = listed(correlate(tagged(said), chosen).reports), by_definition(said, chosen, chosen.min_support)
    assert found.items() <= exact.items()
    if chosen.sightings == 1:
        assert found == exact


@settings(max_examples=100, deadline=None)
@given(timed, choices)
def test_without_catching_up_nothing_is_counted_twice(said, chosen):
    chosen = Settings(**chosen, catch_up=False)
    exact = by_definition(said, chosen, chosen.min_support)
    for key, (support, union) in listed(correlate(tagged(said), chosen).reports).items():
        assert support <= exact[key][0]
        assert union <= exact[key][1]


@settings(max_examples=100, deadline=None)
@given(timed, choices)
def test_the_centralised_result_is_the_definition(said, chosen):
    chosen = Settings(**chosen)
    assert listed(centralised(tagged(said), chosen, chosen.min_support)) == by_definition(
        said, chosen, chosen.min_support
    )


@settings(max_examples=60, deadline=None)
@given(timed, choices, st.integers(1, 59))
def test_posts_may_come_in_several_pieces(said, chosen, cut):
    chosen, posts = Settings(**{**chosen, "sightings": 1}), tagged(said)
    dissemination = Dissemination(chosen, in_this_process(chosen))
    told = [one for part in (posts.slice(0, cut), posts.slice(min(cut, len(posts)), len(posts)))
            for batch in dissemination.take(part) for one in batch]  # fmt: skip
    calculators = {one.calculator: Calculator(chosen.panes, chosen.min_support) for one in told}
    found: dict = {}
    for one in told:
        for end, counted in calculators[one.calculator].take(one):
            _keep_best(found, end, counted)
    for calculator in calculators.values():
        for end, counted in calculator.finish():
            _keep_best(found, end, counted)
    assert found == by_definition(said, chosen, chosen.min_support)


@settings(max_examples=200, deadline=None)
@given(timed, choices, st.booleans(), st.integers(1, 30))
def test_stretches_counted_by_themselves_give_what_the_whole_gives(said, chosen, catch_up, enough):
    chosen, posts = Settings(**chosen, catch_up=catch_up), tagged(said)
    told = Dissemination(chosen, in_this_process(chosen)).take(posts)
    parts = [tracked(calculated(one.told, chosen, one.until)) for one in stretches(told, catch_up, enough)]
    assert listed(Reports.together(parts)) == listed(correlate(posts, chosen).reports)


def test_a_stretch_ends_where_a_plan_does_and_none_does_without_catching_up():
    said = [(time, frozenset({time % 7, time % 5 + 7})) for time in range(40)]
    chosen = Settings(8, 4, 3, 2, checked_every=5, threshold=0.01)
    for catch_up, least in ((True, 3), (False, 1)):
        told = Dissemination(replace(chosen, catch_up=catch_up), in_this_process(chosen)).take(tagged(said))
        found = list(stretches(told, catch_up, 1))
        assert len(found) >= least
        assert (len(found) > 1) == catch_up
        assert [one.until is None for one in found] == [False] * (len(found) - 1) + [True]


def _keep_best(found, end, counted):
    for tags, counts in as_dict(counted).items():
        found[end, tags] = max(found.get((end, tags), (0, 0)), counts)


A, B, C, D = range(4)


def disseminator(plan: TagPlan, said, sightings: int = 3) -> Disseminator:
    chosen = Settings(10, 10, plan.partitions, sightings=sightings)
    found, posts = Disseminator(chosen), tagged([(0, frozenset(tags)) for tags in said])
    found.adopt(plan, TagSets.distinct(*flat([])), even_loads=False)
    found.open(posts, posts.times // 10, 0)
    return found


def told(found: Disseminator) -> list[tuple[int, set[int]]]:
    return [
        (one.calculator, set(tags))
        for one in found.hand_over()
        for tags, weight in zip(rows(one.tags, one.starts), one.weights, strict=True)
        if weight > 0
    ]


def plan_of(*parts: set[int]) -> TagPlan:
    owners = [sum(1 << number for number, part in enumerate(parts) if tag in part) for tag in range(4)]
    return TagPlan(len(parts), np.arange(4, dtype=np.uint32), np.array(owners, np.uint64))


def test_each_calculator_is_told_the_tags_it_owns():
    """The paper's example: {a, b, c} to one that owns all three and one that owns a and c."""
    found = disseminator(plan_of({A, B, C}, {A, C}, {D}), [{A, B, C}])
    found.take()
    assert told(found) == [(0, {A, B, C}), (1, {A, C})]
    assert (found.notified, found.sent[:3].tolist()) == (1, [1, 1, 0])


def test_a_tag_set_nobody_owns_is_added_when_it_was_seen_often_enough():
    found = disseminator(plan_of({A, B}, {C}), [{A, C}] * 3)
    found.take()
    assert found.additions == 1
    assert [tags for _, tags in told(found)].count({A, C}) == 3, "with the two posts it had missed"


def test_unknown_tags_cause_no_notification_until_they_are_added():
    found = disseminator(plan_of({A}, {B}), [{D}, {D}, {D}])
    found.take()
    assert (found.unheard, found.notified, found.additions) == (2, 1, 1)


def test_an_addition_goes_where_the_fewest_posts_must_be_sent():
    found = disseminator(plan_of({A}, {C}), [{A}] * 9 + [{C}] + [{A, C}] * 3)
    found.take()
    assert {calculator for calculator, tags in told(found) if tags == {A, C}} == {0}, "A is frequent, C is not"


def test_partitions_that_became_bad_are_replaced_and_the_reason_told():
    said = [(0, frozenset({tag})) for tag in range(8)] + [(time, frozenset({0, 1})) for time in range(1, 30)]
    chosen = Settings(5, 5, 4, 1, "ds", sightings=1, checked_every=8, threshold=0.5)
    dissemination = correlate(tagged(said), chosen).dissemination
    assert {one.reason for one in dissemination.repartitions} <= {"communication", "load", "communication and load"}
    assert "load" in dissemination.repartitions[0].reason
    assert dissemination.repartitions[0].post % 8 == 0


def test_the_audit_counts_what_is_missing_and_how_far_the_rest_is_off():
    said = [(0, frozenset({A, B}))] * 5 + [(0, frozenset({C, D}))] * 4 + [(0, frozenset({A}))] * 5
    exact = centralised(tagged(said), Settings(10, 10), 4)
    half = centralised(tagged(said[:5]), Settings(10, 10), 1)
    result = audit(half, exact)
    assert (result.expected, result.found, result.coverage) == (2, 1, 0.5)
    assert result.mean_error == pytest.approx(1 - 5 / 10)


def test_figure_1():
    """The introduction's example. The figure's weights are not in the text; these give every number the text gives."""
    munich, beer, soccer, oktoberfest, pizza, bavaria, beach, sunny, friday = range(9)
    said = [
        *[{munich, beer, soccer}] * 4, *[{beer, pizza}] * 5, *[{bavaria, soccer}] * 4, *[{beer, soccer}] * 2,
        *[{munich, oktoberfest}] * 3, *[{beach, sunny}] * 2, *[{friday, sunny}] * 1,
    ]  # fmt: skip
    sets = TagSets.distinct(*flat(said))
    by_component = learn(sets, 2, "ds").measured(sets)
    assert (by_component.loads / by_component.loads.sum()).round(2).tolist() == [0.86, 0.14]
    one, other = {munich, beer, soccer, oktoberfest, beach, sunny, friday}, {beer, pizza, bavaria, soccer}
    owners = [(tag in one) + 2 * (tag in other) for tag in range(9)]
    plan = TagPlan(2, np.arange(9, dtype=np.uint32), np.array(owners, np.uint64))
    measured = plan.measured(sets)
    assert measured.loads.tolist() == [21, 15]
    assert (measured.loads / 36).round(2).tolist() == [0.58, 0.42]
    found = Disseminator(Settings(10, 10, 2))
    posts = tagged([(0, frozenset(tags)) for tags in said])
    found.adopt(plan, sets, even_loads=False)
    found.open(posts, posts.times // 10, 0)
    found.take()
    computed = {told.calculator: _computed(told) for told in found.hand_over()}
    assert set(computed[0]) == set(map(frozenset, [
        {munich, beer}, {munich, soccer}, {beer, soccer}, {munich, beer, soccer}, {munich, oktoberfest},
        {beach, sunny}, {friday, sunny},
    ]))  # fmt: skip
    assert set(computed[1]) == set(map(frozenset, [{bavaria, soccer}, {beer, soccer}, {beer, pizza}]))
    assert computed[0][frozenset({beer, soccer})] == computed[1][frozenset({beer, soccer})] == (6, 15)


def _computed(told: Notifications) -> dict:
    calculator = Calculator(1, 1)
    return {tags: counts for _, counted in [*calculator.take(told), *calculator.finish()]
            for tags, counts in as_dict(counted).items()}  # fmt: skip
