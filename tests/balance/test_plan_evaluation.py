"""What a plan makes each matcher do: counted by the real router and matchers, timed by the measured costs."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contract.matchers import spatial_plan_fitter, word_plan_fitter

from tidings.balance.plan_evaluation import evaluate_index, evaluate_plan
from tidings.index.builder import create_index
from tidings.index.manifest import PlanRecord
from tidings.matching.brute_force import RawPost
from tidings.plan.load_model import WorkModel
from tidings.plan.words import HashPlan
from tidings.routing.spatial_router import open_router
from tidings.spark.worker_state import IndexRef, LoadedIndex
from tidings.testing.oracles import expected_matches
from tidings.testing.pipeline import post_positions, subscription_table
from tidings.testing.strategies import post_lists, query_lists


def to_sample(posts: list[RawPost]):
    return pa.array([post.text for post in posts], pa.large_string()), post_positions(posts)


def measure_with_workers(folder, index, posts: list[RawPost]) -> dict[int, tuple[int, int]]:
    """Return the posts and matches of each matcher as a worker of Spark measures them."""
    texts, positions = to_sample(posts)
    worker = LoadedIndex(IndexRef(str(folder), 1))
    for batch in open_router(index).route(index.analyzer().analyze(texts), positions).batches:
        bounds = np.ascontiguousarray(np.column_stack([batch.starts[:-1], batch.starts[1:]]))
        analyzed = type(index.analyzer().analyze(texts))(batch.terms, bounds)
        worker.match(batch.matcher, analyzed, np.ascontiguousarray(positions[batch.posts]))
    return {matcher: (load.posts, load.matches) for matcher, load in worker.loads.items()}


@pytest.mark.parametrize(("algorithm", "is_spatial"), [("salb+", False), ("hash", False), ("hybrid", True)])
@settings(max_examples=25, deadline=None)
@given(queries=query_lists, posts=post_lists)
def test_counts_are_those_of_the_workers(tmp_path_factory, algorithm, is_spatial, queries, posts):
    folder = tmp_path_factory.mktemp("index") / "index"
    fitter = spatial_plan_fitter if is_spatial else word_plan_fitter
    record, fit = PlanRecord(algorithm, 3, 0), fitter(algorithm, posts, 3)
    index, _ = create_index(folder, subscription_table(queries), record, fit)
    found = evaluate_index(index, to_sample(posts))
    measured = measure_with_workers(folder, index, posts)
    for matcher in range(3):
        assert (found.received[matcher], found.matches[matcher]) == measured.get(matcher, (0, 0))
    expected = expected_matches(queries, posts)
    assert found.matches.sum() >= len(expected)
    if not index.manifest.shared:
        assert found.matches.sum() == len(expected)
    assert found.subscriptions.tolist() == [sum(len(view.segment) for view in index.open_shard(n)) for n in range(3)]


@settings(max_examples=25, deadline=None)
@given(texts=st.lists(st.sampled_from(["storm flood", "storm", "coffee", "tea flood"]), max_size=30))
def test_one_matcher_gets_all_posts_that_have_an_anchor(texts):
    """All queries have one word, so every subscribed word is an anchor."""
    posts = [RawPost(text) for text in texts]
    found = evaluate_plan(HashPlan(1), subscription_table(["storm", "flood", "coffee"]), to_sample(posts))
    words = [set(text.split()) & {"storm", "flood", "coffee"} for text in texts]
    counts = (found.received.tolist(), found.lookups.tolist(), found.matches.tolist(), found.subscriptions.tolist())
    anchors = sum(map(len, words))
    assert counts == ([sum(map(bool, words))], [anchors], [anchors], [3])
    seconds = found.predict_seconds(WorkModel(100.0, 10.0, 1.0, 999.0))
    assert seconds.tolist() == pytest.approx([(100 * sum(map(bool, words)) + 11 * anchors) / 1e9])
    assert found.metrics().spread == pytest.approx(sum(map(bool, words)) / max(1, len(texts)))


@pytest.mark.parametrize("matchers", [1, 4])
def test_a_slower_matcher_is_predicted_where_more_is_matched(matchers):
    posts = [RawPost("storm")] * 500 + [RawPost("coffee")] * 500
    queries = ["storm", *["coffee"] * 200]
    found = evaluate_plan(HashPlan(matchers), subscription_table(queries), to_sample(posts))
    assert found.predict_seconds().argmax() == found.matches.argmax()
    assert found.predict_seconds().max() > 100_000 * 5e-9
