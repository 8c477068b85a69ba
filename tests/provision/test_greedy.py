"""The load model with numbers computed by hand, and the greedy algorithm against an exhaustive search."""

from __future__ import annotations

from itertools import product
from math import exp

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.provision.costs import NAMES, ServiceCosts
from tidings.provision.demand import DAY_S, Demand, NodeSize
from tidings.provision.greedy import CannotProvision, decompose, find_violation, provision
from tidings.provision.model import (
    CONSTRAINTS,
    FILTER_MODES,
    SERVICES,
    NodeLoad,
    ServiceLoadModel,
    Topology,
    node_limits,
)

FREE = ServiceCosts(**dict.fromkeys(NAMES, 0.0))
MOST = 6  # replicas of a service the exhaustive search tries


def demand(**changes: float) -> Demand:
    """One article per second: 1,000 feeds with 86.4 per day; all feeds and subscriptions are polled in 100 s."""
    told = {"subscriptions": 1_000, "feeds": 1_000, "articles_per_feed_day": 86.4, "poll_s": 100.0, "crawl_s": 100.0}
    return Demand(**{**told, **changes})


def test_load_of_a_crawler() -> None:
    costs = FREE.with_changes(
        {
            "crawl_request_bytes": 100,
            "crawl_unchanged_bytes": 200,
            "crawl_document_bytes": 10_000,
            "crawl_poll_cpu_s": 0.001,
            "crawl_document_cpu_s": 0.01,
            "crawl_feed_bytes": 1_000,
            "crawler_bytes": 500_000,
            "store_memory_share": 0.5,
            "article_bytes": 1_000,
        }
    )
    load = ServiceLoadModel(demand(), costs, "broadcast").load("crawler", Topology(2, 3, 1))
    # half the feeds: 5 polls/s; a feed has 0.1 articles between two polls, so 1 − e^−0.1 of them find something new
    changed = 5 * (1 - exp(-0.1))
    assert load.in_bps == pytest.approx(8 * (changed * 10_000 + (5 - changed) * 200))
    assert load.out_bps == pytest.approx(8 * (5 * 100 + 0.5 * 3 * 1_000))  # each article to each of three filters
    assert load.cores == pytest.approx(5 * 0.001 + changed * 0.01)
    assert load.memory_bytes == 500_000 + 0.5 * 500 * 1_000


def test_load_of_a_filter_with_every_plan() -> None:
    costs = FREE.with_changes(
        {
            "article_bytes": 1_000,
            "routed_bytes": 50,
            "receive_cpu_s": 0.1,
            "match_cpu_s": 0.01,
            "match_subscription_cpu_s": 0.0001,
            "spread_exponent": 0.5,
            "index_subscription_bytes": 60,
            "filter_bytes": 1_000_000,
        }
    )
    of = {plan: ServiceLoadModel(demand(), costs, plan).load("filter", Topology(1, 4, 1)) for plan in FILTER_MODES}
    assert of["replicated"].in_bps == pytest.approx(8 * 1_000 / 4)
    assert of["replicated"].cores == pytest.approx((0.1 + 0.01 + 0.1) / 4)
    assert of["replicated"].memory_bytes == 1_000_000 + 60 * 1_000
    assert of["broadcast"].in_bps == pytest.approx(8 * 1_000)
    assert of["broadcast"].cores == pytest.approx(0.1 + 0.01 + 0.025)
    assert of["broadcast"].memory_bytes == 1_000_000 + 60 * 250
    assert of["partitioned"].in_bps == pytest.approx(8 * (1_000 / 4 + 2 * 50 / 4))  # the words go to √4 of four
    assert of["partitioned"].cores == pytest.approx(0.1 / 4 + 2 / 4 * (0.01 + 0.025))
    assert of["partitioned"].memory_bytes == 1_000_000 + 60 * 250


def test_load_of_a_reflector() -> None:
    costs = FREE.with_changes(
        {
            "article_bytes": 1_000,
            "hit_wire_bytes": 10,
            "match_share": 0.002,  # two subscriptions want an article
            "hit_cpu_s": 0.01,
            "hit_bytes": 20,
            "subscription_bytes": 100,
            "answer_unchanged_bytes": 150,
            "answer_unchanged_cpu_s": 0.001,
            "answer_bytes": 400,
            "answer_item_bytes": 300,
            "answer_cpu_s": 0.002,
            "answer_item_cpu_s": 0.0003,
            "reader_request_bytes": 250,
            "reflector_bytes": 7_000,
            "store_memory_share": 0.5,
        }
    )
    load = ServiceLoadModel(demand(queue_hits=5), costs, "replicated").load("reflector", Topology(1, 1, 2))
    # 500 subscriptions: 5 polls/s; 0.2 hits between two polls of one; queues are full: 5 hits
    changed = 5 * (1 - exp(-0.2))
    told = 2 * (1 - exp(-1))  # of the two reflectors, each hosts one of two hits with 1 − e^−1
    assert load.in_bps == pytest.approx(8 * ((told * 1_000 + 2 * 10) / 2 + 5 * 250))
    assert load.out_bps == pytest.approx(8 * (changed * (400 + 5 * 300) + (5 - changed) * 150))
    assert load.cores == pytest.approx(1 * 0.01 + changed * (0.002 + 5 * 0.0003) + (5 - changed) * 0.001)
    kept = min(5 / 0.002 * (1 - exp(-1)), 500 * 5)  # 2,500 articles come while a queue fills
    assert load.memory_bytes == pytest.approx(7_000 + 0.5 * (500 * (100 + 5 * 20) + kept * 1_000))


def test_algorithm_of_the_talk() -> None:
    """Only memory: 1,000 subscriptions of 60 bytes on nodes of 25,000 bytes need three filters, one of the rest."""
    costs = FREE.with_changes({"index_subscription_bytes": 60})
    node = NodeSize(bandwidth_bps=1e6, memory_bytes=25_000, cores=1)
    found = decompose(ServiceLoadModel(demand(), costs, "partitioned"), node_limits(node))
    assert found.topology == (1, 3, 1)
    assert [(step.violation.service, step.violation.constraint) for step in found.steps] == [("filter", "memory_bytes")]
    assert (found.steps[0].before, found.steps[0].after, found.steps[0].violation.used) == (1, 3, 60_000)
    assert found.headroom("filter", "memory_bytes") == pytest.approx(1 - 20_000 / 25_000)
    with pytest.raises(CannotProvision, match="memory for any number"):
        decompose(ServiceLoadModel(demand(), costs, "replicated"), node_limits(node))
    assert provision(demand(), node, costs).plan == "partitioned"
    assert provision(demand(), NodeSize(1e6, 60_000, 1), costs).plan == "replicated"  # it fits: of equals the first


def test_more_filters_can_overload_the_crawler() -> None:
    """Two filters, needed for memory, double what the crawler sends, so two crawlers are needed."""
    costs = FREE.with_changes({"index_subscription_bytes": 60, "article_bytes": 1_000})
    found = decompose(ServiceLoadModel(demand(), costs, "broadcast"), node_limits(NodeSize(12_000, 30_000, 1)))
    assert found.topology == (2, 2, 1)
    assert [step.violation.service for step in found.steps] == ["filter", "crawler"]


def test_headroom_stays_free() -> None:
    costs = FREE.with_changes({"index_subscription_bytes": 60})
    assert provision(demand(), NodeSize(1e6, 60_000, 1), costs, "broadcast").topology.filter == 1
    found = provision(demand(), NodeSize(1e6, 60_000, 1, headroom=0.2), costs, "broadcast")
    assert found.topology.filter == 2


COSTS = st.fixed_dictionaries(
    {
        "crawl_request_bytes": st.floats(0, 500),
        "crawl_unchanged_bytes": st.floats(0, 500),
        "crawl_document_bytes": st.floats(0, 50_000),
        "crawl_ignoring_share": st.floats(0, 1),
        "crawl_poll_cpu_s": st.floats(0, 0.1),
        "crawl_feed_bytes": st.floats(0, 1_000),
        "article_bytes": st.floats(0, 5_000),
        "routed_bytes": st.floats(0, 500),
        "hit_wire_bytes": st.floats(0, 100),
        "receive_cpu_s": st.floats(0, 0.5),
        "match_cpu_s": st.floats(0, 0.5),
        "match_subscription_cpu_s": st.floats(0, 0.001),
        "match_share": st.floats(0, 0.05),
        "spread_exponent": st.floats(0, 1),
        "index_subscription_bytes": st.floats(0, 300),
        "filter_bytes": st.floats(0, 50_000),
        "hit_cpu_s": st.floats(0, 0.1),
        "hit_bytes": st.floats(0, 50),
        "store_memory_share": st.floats(0, 1),
        "answer_item_bytes": st.floats(0, 1_000),
        "answer_cpu_s": st.floats(0, 0.2),
        "reader_request_bytes": st.floats(0, 500),
    }
)
NODES = st.builds(NodeSize, st.floats(2e4, 1e6), st.floats(5e4, 1e6), st.floats(0.3, 4), st.sampled_from([0.0, 0.2]))


@settings(max_examples=150, deadline=None)
@given(changes=COSTS, node=NODES, plan=st.sampled_from(FILTER_MODES))
def test_no_valid_topology_has_fewer_replicas_of_any_service(
    changes: dict[str, float], node: NodeSize, plan: str
) -> None:
    model = ServiceLoadModel(demand(), FREE.with_changes(changes), plan)
    limit = node_limits(node)
    every = [Topology(*counts) for counts in product(range(1, MOST + 1), repeat=3)]
    working = [one for one in every if _is_valid(model, one, limit)]
    try:
        found = decompose(model, limit)
    except CannotProvision:
        assert not working
        return
    assert _is_valid(model, found.topology, limit)
    assert find_violation(model, found.topology, limit) is None
    least = [min((getattr(one, service) for one in working), default=None) for service in SERVICES]
    if working:
        assert list(found.topology) == least
    else:
        assert max(found.topology) > MOST


def _is_valid(model: ServiceLoadModel, topology: Topology, limit: NodeLoad) -> bool:
    return all(
        getattr(model.load(service, topology), constraint) <= getattr(limit, constraint)
        for service in SERVICES
        for constraint in CONSTRAINTS
    )


@settings(max_examples=150, deadline=None)
@given(
    changes=COSTS,
    plan=st.sampled_from(FILTER_MODES),
    counts=st.tuples(*[st.integers(1, 40)] * 3),
    grown=st.sampled_from(SERVICES),
    judged=st.sampled_from(SERVICES),
)
def test_more_replicas_of_a_service_never_reduce_other_loads(
    changes: dict[str, float], plan: str, counts: tuple[int, int, int], grown: str, judged: str
) -> None:
    """The proof of the greedy algorithm depends on this."""
    model = ServiceLoadModel(demand(), FREE.with_changes(changes), plan)
    before = Topology(*counts)
    after = before._replace(**{grown: getattr(before, grown) + 1})
    for constraint, old, new in zip(
        CONSTRAINTS,
        model.load(judged, before),
        model.load(judged, after),
        strict=True,
    ):
        if grown != judged:
            assert new >= old * (1 - 1e-9), constraint
        else:
            assert new <= old * (1 + 1e-9), constraint


def test_empty_deployment_needs_three_nodes() -> None:
    nothing = Demand(subscriptions=0, feeds=0, articles_per_feed_day=0.0)
    found = provision(nothing, NodeSize(), FREE.with_changes({"match_share": 0.5, "answer_bytes": 100}))
    assert found.topology == (1, 1, 1)
    assert nothing.articles_s * DAY_S == 0
