"""Scenarios draw the posts of a phase from the right place and time; simulated streams match them."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidings.balance.rebalance.options import RebalanceOptions
from tidings_lab.located_posts import as_located, generate_located
from tidings_lab.measurements.space_moving import LiveRun, latencies
from tidings_lab.simulated_spatial_matchers import MeasuredRun, SimulatedSpatialCluster
from tidings_lab.simulated_stream import NO_REBALANCING, LiveBatch, build_state, run_in_turns, summarize_batches
from tidings_lab.spatial_scenarios import Crowds, draw_balanced, draw_day_and_night, draw_hot_spot
from tidings_lab.spatial_workload import Tweets, draw_subscriptions

POSTS = generate_located(5_000, 3)


def positions(table):
    return np.column_stack([table.column("lon"), table.column("lat")])


def rng():
    return np.random.default_rng(4)


def test_a_crowd_writes_its_share_at_one_place_that_moves():
    draw = draw_hot_spot(POSTS, rng(), Crowds(share=0.5, size=50))
    places = []
    for phase in range(3):
        counts = [draw(phase, 2_000) for _ in range(2)]
        texts, frequency = np.unique([str(row) for row in counts[0].to_pylist()], return_counts=True)
        busiest = set(texts[np.argsort(-frequency)[:50]])
        assert 0.45 < np.mean([str(row) in busiest for row in counts[1].to_pylist()]) < 0.6
        center = np.median(positions(counts[0]), axis=0)
        assert np.mean(np.abs(positions(counts[0]) - center).max(axis=1) < 1) > 0.45
        places.append(busiest)
    assert not places[0] & places[1]


def test_posts_of_a_phase_are_of_its_hours():
    draw = draw_day_and_night(POSTS, rng())
    for phase, expected in ((0, range(4)), (5, range(20, 24)), (7, range(4, 8))):
        hours = pc.utf8_slice_codeunits(draw(phase, 500).column("time"), 11, 13).to_pylist()
        assert set(map(int, hours)) <= set(expected)


def test_balanced_posts_do_not_depend_on_the_phase():
    first, second = (positions(draw_balanced(POSTS, rng())(phase, 3_000)) for phase in (0, 5))
    assert np.array_equal(first, second)
    assert abs(first.mean() - positions(POSTS).mean()) < 1


def make_stream(folder, options):
    subscriptions = draw_subscriptions("Q1", 300, Tweets.of(POSTS), 3)
    open_copy = build_state(folder / "state", subscriptions, "kdtree", 3, as_located(POSTS))
    return subscriptions, open_copy(folder / "copy", options, (1.0, 1.0, 0.25))


def test_a_slow_machine_needs_more_time_for_the_same_posts(tmp_path):
    _, stream = make_stream(tmp_path, NO_REBALANCING)
    with closing(stream):
        for _ in range(2):
            cost = stream.run_batch(POSTS, 1.0, repetitions=5)
    assert cost.posts == len(POSTS)
    per_post = cost.matching / cost.sent
    assert per_post[2] > 2 * per_post[:2].max()
    assert (cost.is_switch, cost.bytes_written) == (False, 0)


def test_replaced_subscriptions_are_matched_in_place_of_the_old_ones(tmp_path):
    subscriptions, stream = make_stream(tmp_path, NO_REBALANCING)
    rows = np.arange(100, 200)
    others = draw_subscriptions("Q2", 300, Tweets.of(POSTS), 9)
    with closing(stream):
        stream.replace_subscriptions(rows, others)
        live = [row.query for row in stream.store.subscriptions.all()]
        hits = stream.run_batch(POSTS, 1.0).hits
    queries = [one.column("query").to_pylist() for one in (subscriptions, others)]
    assert sorted(live) == sorted(queries[0][:100] + queries[0][200:] + queries[1][100:200])
    replaced = pa.concat_tables([subscriptions.slice(0, 100), others.slice(100, 100), subscriptions.slice(200)])
    cluster = SimulatedSpatialCluster.learn(tmp_path / "new", replaced, "kdtree", 3, as_located(POSTS))
    run = MeasuredRun(cluster, cluster.analyze(POSTS))
    run.run_round()
    assert hits == run.work().to_dict()["hits"]


def test_bytes_of_a_step_are_those_of_its_new_files(tmp_path):
    _, stream = make_stream(tmp_path, RebalanceOptions(interval_s=None))
    draw = draw_hot_spot(POSTS, rng())
    with closing(stream):
        files = stream.list_files()
        for _ in range(12):
            cost = stream.run_batch(draw(0, 20_000), 5.0)
            if cost.is_switch:
                break
        new = {path: size for path, size in stream.list_files().items() if path not in files}
        assert cost.is_switch
        assert any(path.name == "space.parquet" for path in new)
        assert cost.bytes_written >= stream.rebalancer.status()["rebalanced_bytes"] > 0
        assert cost.bytes_written <= sum(new.values())


def test_batches_in_a_queue_wait_for_those_before_them():
    assert latencies([0.0, 1.0, 2.0, 9.0], [0.5, 3.0, 0.5, 1.0]).tolist() == [0.5, 3.0, 2.5, 1.0]


def test_batches_that_wait_for_a_switch_are_affected_by_it():
    services = [(0.5, False, False), (0.5, True, False), (3.0, False, True), (0.5, False, False), (0.5, False, False)]
    batches = [LiveBatch(service, 0.0, *flags) for service, *flags in services]
    arrived = [0.0, 1.0, 2.0, 3.0, 9.0]
    run = LiveRun(None, None, {}, batches, arrived)
    waits = 1e3 * latencies(arrived, [batch.service_s for batch in batches])
    assert run._affected(waits).tolist() == [False, True, True, True, False]


def test_arms_take_turns_and_match_the_same_posts(tmp_path):
    subscriptions = draw_subscriptions("Q1", 300, Tweets.of(POSTS), 3)
    open_copy = build_state(tmp_path / "state", subscriptions, "kdtree", 3, as_located(POSTS))
    streams = {name: open_copy(tmp_path / name, NO_REBALANCING, None) for name in ("one", "two")}
    draw = draw_hot_spot(POSTS, rng())
    costs = run_in_turns(streams, [draw(0, 500), draw(1, 700)], 1.0)
    for stream in streams.values():
        stream.close()
    assert [cost.hits for cost in costs["one"]] == [cost.hits for cost in costs["two"]]
    assert summarize_batches(costs["one"])["posts"] == 1_200
