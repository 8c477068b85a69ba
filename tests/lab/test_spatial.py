"""The query sets have the properties that PS²Stream describes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tidings.index.builder import create_index
from tidings.matching.segment_matcher import SegmentMatcher
from tidings.plan.load_model import WorkModel
from tidings_lab import REPOSITORY
from tidings_lab.calibrate_work_model import calibrate_work, fit_ns
from tidings_lab.located_posts import as_located, generate_located
from tidings_lab.results import RESULTS, find_newest
from tidings_lab.simulated_spatial_matchers import MeasuredRun, SimulatedSpatialCluster, renumber
from tidings_lab.spatial_workload import QUERY_SETS, Tweets, departures, draw_subscriptions, lifetimes


def make_tweets() -> Tweets:
    rng = np.random.default_rng(2)
    words = rng.zipf(1.3, (2000, 6)) % 500
    texts = [" ".join(f"w{word}" for word in row) for row in words]
    return Tweets.of(pa.table({"text": texts, "lat": rng.uniform(25, 45, 2000), "lon": rng.uniform(-90, -70, 2000)}))


def sides_km(table: pa.Table) -> np.ndarray:
    boxes = np.array(table.column("region").to_pylist())
    return (boxes[:, 3] - boxes[:, 1]) * 111.195


@pytest.mark.parametrize("query_set", QUERY_SETS)
def test_query_has_one_to_three_words_and_a_square_of_the_given_size(query_set):
    table = draw_subscriptions(query_set, 3000, make_tweets(), seed=1)
    sizes = [len([word for word in query.split() if word != "OR"]) for query in table.column("query").to_pylist()]
    assert set(sizes) == {1, 2, 3}
    assert sides_km(table).min() > 0.99
    assert sides_km(table).max() < (50.01 if query_set == "Q1" else 100.01)
    boxes = np.array(table.column("region").to_pylist())
    wide = (boxes[:, 2] - boxes[:, 0]) * 111.195 * np.cos(np.radians((boxes[:, 1] + boxes[:, 3]) / 2))
    assert np.allclose(wide, sides_km(table))


def test_every_query_of_q2_has_an_infrequent_word():
    drawn = make_tweets()
    frequent = {term.decode() for term in drawn.corpus.terms[: int(len(drawn.corpus.terms) * 0.01)]}
    queries = draw_subscriptions("Q2", 2000, drawn, seed=1).column("query").to_pylist()
    assert all(set(query.replace(" OR ", " ").split()) - frequent for query in queries)
    others = draw_subscriptions("Q1", 2000, drawn, seed=1).column("query").to_pylist()
    assert not all(set(query.replace(" OR ", " ").split()) - frequent for query in others)


def test_q3_has_regions_of_both_kinds_and_some_of_them_change():
    drawn = make_tweets()
    before, after = (draw_subscriptions("Q3", 4000, drawn, 1, flipped) for flipped in (0.0, 0.1))
    assert 0.1 < np.mean(sides_km(before) > 50) < 0.5  # half of the regions are Q2, half of their squares are larger
    changed = np.mean(np.abs(sides_km(before) - sides_km(after)) > 1e-6)
    assert 0.03 < changed < 0.2


@pytest.mark.parametrize("query_set", ["Q3 by population", "Q3 front"])
def test_a_tenth_of_the_regions_by_population_has_a_tenth_of_the_queries(query_set):
    drawn = make_tweets()
    before, after = (draw_subscriptions(query_set, 4000, drawn, 1, flipped) for flipped in (0.2, 0.3))
    changed = np.abs(sides_km(before) - sides_km(after)) > 1e-6
    assert 0.08 < np.mean(changed) < 0.12
    west = np.array(before.column("region").to_pylist())[:, 0]
    if query_set == "Q3 front":
        assert np.all((west[changed] > np.quantile(west, 0.15)) & (west[changed] < np.quantile(west, 0.35)))
        assert np.mean(sides_km(before)[west > np.quantile(west, 0.25)] > 50) == 0


def test_same_seed_draws_the_same_subscriptions():
    assert draw_subscriptions("Q3", 50, make_tweets(), 3).equals(draw_subscriptions("Q3", 50, make_tweets(), 3))
    assert not draw_subscriptions("Q3", 50, make_tweets(), 3).equals(draw_subscriptions("Q3", 50, make_tweets(), 4))


def test_lifetimes_are_normal_around_their_mean():
    drawn = lifetimes(20_000, 1000, seed=1)
    assert drawn.mean() == pytest.approx(1000, rel=0.01)
    assert drawn.std() == pytest.approx(200, rel=0.03)


def test_insertions_and_removals_are_balanced():
    leaves = departures(20_000, 100_000, seed=1)
    assert len(leaves) == 120_000
    assert (leaves[20_000:] > np.arange(100_000)).all()
    removed = np.bincount(np.minimum(leaves, 100_000) // 5_000)[:20]
    assert np.abs(removed - 5_000).max() < 500


def test_default_costs_are_those_of_the_stored_calibration():
    path, result = find_newest(REPOSITORY / RESULTS, "benchmark", "work-model")
    measured, load_model = result["measured"]["work_model"], result["measured"]["load_model"]
    measured |= {"update_ns": load_model["insert_ns"] + load_model["delete_ns"]}
    for name, cost in measured.items():
        assert getattr(WorkModel(), name) == pytest.approx(cost, rel=0.03), f"{name} differs from {path.name}"


def test_fitted_costs_ignore_disturbed_measurements():
    rng = np.random.default_rng(1)
    counts, costs = rng.uniform(100, 1000, (3, 200)), np.array([40.0, 50.0, 10.0])
    times = costs @ counts
    times[rng.permutation(200)[:20]] *= rng.uniform(1.5, 3, 20)
    assert fit_ns(counts, times) == pytest.approx(costs, rel=0.02)


def test_matches_are_counted_without_duplicates(tmp_path):
    posts = generate_located(1_000, 5)
    subscriptions = draw_subscriptions("Q2", 400, Tweets.of(posts), 5)
    index, _ = create_index(tmp_path / "whole", subscriptions)
    (view,) = index.open_shard(0)
    analyzed = index.analyzer().analyze(posts.column("text").combine_chunks())
    positions = np.column_stack([posts.column("lon"), posts.column("lat")])
    expected = len(SegmentMatcher(view.segment, index.manifest.terms, view.removed).match(analyzed, positions))
    for name in ("kdtree", "metric"):
        cluster = SimulatedSpatialCluster.learn(tmp_path / name, subscriptions, name, 4, as_located(posts))
        run = MeasuredRun(cluster, cluster.analyze(posts), renumber(subscriptions, 400))
        run.run_round()
        work = run.work()
        assert run.count_matches() == expected > 0
        assert work.matching.shape == (1, 1, 4)
        assert work.to_dict()["hits"] >= expected
        assert work.to_dict()["latency_ms"] > 0


def test_every_matcher_is_counted_and_timed():
    work = calibrate_work(generate_located(600, 1), 200, posts=300)
    assert (work.counts.shape, work.matching.shape) == ((3, 96), (96,))
    assert (work.counts[0] > 0).any()
    assert ((work.matching > 0) == (work.counts[0] > 0)).all(), "matchers that get posts take time"
