"""The whole topology: its reports equal those of one calculator that sees all posts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.correlate.definitions import count_coefficients, to_arrays, to_dict, to_tag_sets

from tidings.correlate.audit import audit, compute_exact
from tidings.correlate.calculator import Calculator
from tidings.correlate.partition.plan import TagPlan
from tidings.correlate.partition.registry import ALGORITHMS, learn_tag_plan
from tidings.correlate.partition.tagsets import TagSets
from tidings.correlate.posts import TaggedPosts
from tidings.correlate.reference_topology import correlate, run_calculators
from tidings.correlate.settings import CorrelationSettings
from tidings.correlate.tag_router import Notifications, TagRouter
from tidings.correlate.tag_routing_pipeline import TagRoutingPipeline, local_planner
from tidings.correlate.time_slices import split_at_plans
from tidings.correlate.tracker import Reports, choose_reports

timed_posts = st.lists(
    st.tuples(st.integers(0, 40), st.frozensets(st.integers(0, 9), min_size=1, max_size=4)), min_size=1, max_size=60
)
settings_options = st.fixed_dictionaries(
    {
        "slide_us": st.just(4),
        "window_us": st.sampled_from([4, 8, 20]),
        "partitions": st.integers(1, 4),
        "partitioners": st.integers(1, 3),
        "algorithm": st.sampled_from(ALGORITHMS),
        "min_sightings": st.integers(1, 3),
        "check_every": st.integers(1, 9),
        "threshold": st.sampled_from([0.01, 0.5]),
        "min_support": st.integers(1, 2),
        "posts_per_partition": st.sampled_from([None, 3]),
    }
)


def tag_posts(posts) -> TaggedPosts:
    ordered = sorted(posts, key=lambda post: post[0])
    return TaggedPosts(np.array([time for time, _ in ordered], np.int64), *to_arrays(tags for _, tags in ordered))


def count_windows(posts, settings: CorrelationSettings) -> dict:
    """Return (window end, tags) → (support, union) by definition."""
    slide, panes, counts = settings.slide_us, settings.panes, {}
    for end in {time // slide + offset for time, _ in posts for offset in range(1, panes + 1)}:
        inside = [tags for time, tags in posts if end - panes <= time // slide < end]
        counts |= {(end, tags): pair for tags, pair in count_coefficients(inside, settings.min_support).items()}
    return counts


def list_reports(reports) -> dict:
    keys = list(zip(reports.ends.tolist(), to_tag_sets(reports.counted.tags, reports.counted.starts), strict=True))
    assert len(set(keys)) == len(keys), "a tag set has two coefficients in a window"
    counts = zip(reports.counted.support.tolist(), reports.counted.union.tolist(), strict=True)
    return dict(zip(keys, counts, strict=True))


@settings(max_examples=300, deadline=None)
@given(timed_posts, settings_options)
def test_every_coefficient_is_exact_despite_repartitions(said, options):
    chosen = CorrelationSettings(**options)
    found, exact = list_reports(correlate(tag_posts(said), chosen).reports), count_windows(said, chosen)
    assert found.items() <= exact.items()
    if chosen.min_sightings == 1:
        assert found == exact


@settings(max_examples=100, deadline=None)
@given(timed_posts, settings_options)
def test_without_catching_up_nothing_is_counted_twice(said, options):
    chosen = CorrelationSettings(**options, catch_up=False)
    exact = count_windows(said, chosen)
    for key, (support, union) in list_reports(correlate(tag_posts(said), chosen).reports).items():
        assert support <= exact[key][0]
        assert union <= exact[key][1]


@settings(max_examples=100, deadline=None)
@given(timed_posts, settings_options)
def test_single_calculator_equals_the_definition(said, options):
    chosen = CorrelationSettings(**options)
    assert list_reports(compute_exact(tag_posts(said), chosen, chosen.min_support)) == count_windows(said, chosen)


@settings(max_examples=60, deadline=None)
@given(timed_posts, settings_options, st.integers(1, 59))
def test_posts_may_arrive_in_several_parts(said, options, cut):
    chosen, posts = CorrelationSettings(**{**options, "min_sightings": 1}), tag_posts(said)
    pipeline = TagRoutingPipeline(chosen, local_planner(chosen))
    parts = (posts.slice(0, cut), posts.slice(min(cut, len(posts)), len(posts)))
    groups = [group for part in parts for batch in pipeline.route(part) for group in batch]
    calculators = {group.calculator: Calculator(chosen.panes, chosen.min_support) for group in groups}
    found: dict = {}
    for group in groups:
        for end, counted in calculators[group.calculator].process(group):
            keep_best(found, end, counted)
    for calculator in calculators.values():
        for end, counted in calculator.finish():
            keep_best(found, end, counted)
    assert found == count_windows(said, chosen)


@settings(max_examples=200, deadline=None)
@given(timed_posts, settings_options, st.booleans(), st.integers(1, 30))
def test_time_slices_counted_independently_equal_the_whole(said, options, catch_up, min_rows):
    chosen, posts = CorrelationSettings(**options, catch_up=catch_up), tag_posts(said)
    routed = TagRoutingPipeline(chosen, local_planner(chosen)).route(posts)
    slices = split_at_plans(routed, catch_up, min_rows)
    parts = [choose_reports(run_calculators(part.notifications, chosen, part.until)) for part in slices]
    assert list_reports(Reports.concat(parts)) == list_reports(correlate(posts, chosen).reports)


def test_time_slice_ends_with_a_plan_only_when_catching_up():
    said = [(time, frozenset({time % 7, time % 5 + 7})) for time in range(40)]
    chosen = CorrelationSettings(8, 4, 3, 2, check_every=5, threshold=0.01)
    for catch_up, minimum in ((True, 3), (False, 1)):
        routed = TagRoutingPipeline(replace(chosen, catch_up=catch_up), local_planner(chosen)).route(tag_posts(said))
        slices = list(split_at_plans(routed, catch_up, 1))
        assert len(slices) >= minimum
        assert (len(slices) > 1) == catch_up
        assert [part.until is None for part in slices] == [False] * (len(slices) - 1) + [True]


def keep_best(counts: dict, end: int, counted) -> None:
    for tags, pair in to_dict(counted).items():
        counts[end, tags] = max(counts.get((end, tags), (0, 0)), pair)


A, B, C, D = range(4)


def open_router(plan: TagPlan, tag_sets) -> TagRouter:
    router = TagRouter(CorrelationSettings(10, 10, plan.partitions, min_sightings=3))
    posts = tag_posts([(0, frozenset(tags)) for tags in tag_sets])
    router.adopt(plan, TagSets.deduplicate(*to_arrays([])), even_loads=False)
    router.open_posts(posts, posts.times // 10, 0)
    return router


def drain(router: TagRouter) -> list[tuple[int, set[int]]]:
    return [
        (group.calculator, set(tags))
        for group in router.drain()
        for tags, weight in zip(to_tag_sets(group.tags, group.starts), group.weights, strict=True)
        if weight > 0
    ]


def build_plan(*parts: set[int]) -> TagPlan:
    owners = [sum(1 << number for number, part in enumerate(parts) if tag in part) for tag in range(4)]
    return TagPlan(len(parts), np.arange(4, dtype=np.uint32), np.array(owners, np.uint64))


def test_calculator_is_notified_of_the_tags_it_owns():
    """The paper's example: {a, b, c} to one that owns all three and one that owns a and c."""
    router = open_router(build_plan({A, B, C}, {A, C}, {D}), [{A, B, C}])
    router.route()
    assert drain(router) == [(0, {A, B, C}), (1, {A, C})]
    assert (router.notified, router.sent[:3].tolist()) == (1, [1, 1, 0])


def test_tag_set_without_owner_is_added_after_enough_sightings():
    router = open_router(build_plan({A, B}, {C}), [{A, C}] * 3)
    router.route()
    assert router.additions == 1
    assert [tags for _, tags in drain(router)].count({A, C}) == 3, "including the two posts it had missed"


def test_unknown_tags_cause_no_notification_before_their_addition():
    router = open_router(build_plan({A}, {B}), [{D}, {D}, {D}])
    router.route()
    assert (router.unrouted_posts, router.notified, router.additions) == (2, 1, 1)


def test_addition_goes_to_the_calculator_with_the_fewest_additional_posts():
    router = open_router(build_plan({A}, {C}), [{A}] * 9 + [{C}] + [{A, C}] * 3)
    router.route()
    assert {calculator for calculator, tags in drain(router) if tags == {A, C}} == {0}, "A is frequent, C is not"


def test_degraded_partitions_are_replaced_with_a_reason():
    said = [(0, frozenset({tag})) for tag in range(8)] + [(time, frozenset({0, 1})) for time in range(1, 30)]
    chosen = CorrelationSettings(5, 5, 4, 1, "ds", min_sightings=1, check_every=8, threshold=0.5)
    pipeline = correlate(tag_posts(said), chosen).pipeline
    assert {event.reason for event in pipeline.repartitions} <= {"communication", "load", "communication and load"}
    assert "load" in pipeline.repartitions[0].reason
    assert pipeline.repartitions[0].post % 8 == 0


def test_audit_reports_coverage_and_error():
    said = [(0, frozenset({A, B}))] * 5 + [(0, frozenset({C, D}))] * 4 + [(0, frozenset({A}))] * 5
    exact = compute_exact(tag_posts(said), CorrelationSettings(10, 10), 4)
    half = compute_exact(tag_posts(said[:5]), CorrelationSettings(10, 10), 1)
    result = audit(half, exact)
    assert (result.expected, result.found, result.coverage) == (2, 1, 0.5)
    assert result.mean_error == pytest.approx(1 - 5 / 10)


def test_figure_1_of_the_paper():
    """The example of the introduction. The weights are chosen to give every number in the text."""
    munich, beer, soccer, oktoberfest, pizza, bavaria, beach, sunny, friday = range(9)
    said = [
        *[{munich, beer, soccer}] * 4, *[{beer, pizza}] * 5, *[{bavaria, soccer}] * 4, *[{beer, soccer}] * 2,
        *[{munich, oktoberfest}] * 3, *[{beach, sunny}] * 2, *[{friday, sunny}] * 1,
    ]  # fmt: skip
    sets = TagSets.deduplicate(*to_arrays(said))
    metrics_ds = learn_tag_plan(sets, 2, "ds").measure(sets)
    assert (metrics_ds.loads / metrics_ds.loads.sum()).round(2).tolist() == [0.86, 0.14]
    first, second = {munich, beer, soccer, oktoberfest, beach, sunny, friday}, {beer, pizza, bavaria, soccer}
    owners = [(tag in first) + 2 * (tag in second) for tag in range(9)]
    plan = TagPlan(2, np.arange(9, dtype=np.uint32), np.array(owners, np.uint64))
    metrics = plan.measure(sets)
    assert metrics.loads.tolist() == [21, 15]
    assert (metrics.loads / 36).round(2).tolist() == [0.58, 0.42]
    router = TagRouter(CorrelationSettings(10, 10, 2))
    posts = tag_posts([(0, frozenset(tags)) for tags in said])
    router.adopt(plan, sets, even_loads=False)
    router.open_posts(posts, posts.times // 10, 0)
    router.route()
    computed = {group.calculator: count_notified(group) for group in router.drain()}
    assert set(computed[0]) == set(map(frozenset, [
        {munich, beer}, {munich, soccer}, {beer, soccer}, {munich, beer, soccer}, {munich, oktoberfest},
        {beach, sunny}, {friday, sunny},
    ]))  # fmt: skip
    assert set(computed[1]) == set(map(frozenset, [{bavaria, soccer}, {beer, soccer}, {beer, pizza}]))
    assert computed[0][frozenset({beer, soccer})] == computed[1][frozenset({beer, soccer})] == (6, 15)


def count_notified(notifications: Notifications) -> dict:
    calculator = Calculator(1, 1)
    return {tags: counts for _, counted in [*calculator.process(notifications), *calculator.finish()]
            for tags, counts in to_dict(counted).items()}  # fmt: skip
