"""When a stream rebalances its spatial plan, with a simulated clock and without Spark."""

from __future__ import annotations

import json
from unittest.mock import ANY

import numpy as np
from tests.balance.test_migration import to_sample

from tidings.balance.rebalance.global_policy import GlobalSettings
from tidings.balance.rebalance.options import RebalanceOptions
from tidings.balance.recent_sample import RecentPosts
from tidings.balance.refresh_policy import MIN_POSTS
from tidings.balance.spec import PlanSpec
from tidings.failpoints import arm
from tidings.index.manifest import list_versions
from tidings.index.reader import Index
from tidings.index.shard_merge import list_divided_shards
from tidings.matching.brute_force import RawPost, match_all
from tidings.matching.load import MatcherLoad
from tidings.query.parse import parse
from tidings.routing.spatial_router import open_router
from tidings.routing.stats import RoutingStats
from tidings.spark.execution_mode import make_plan_record
from tidings.store import open_store
from tidings.stream import global_rebalancer
from tidings.stream.build_backoff import BuildBackoff
from tidings.stream.index_updater import IndexUpdater
from tidings.stream.rebalancer import Rebalancer
from tidings.testing.contract import town_workload
from tidings.testing.pipeline import analyze_posts, match_index

HOUR_S = 3_600.0
WORKERS = 3


class SimulatedStream:
    """A stream of batches that use a Rebalancer."""

    def __init__(self, folder, options: RebalanceOptions, partitioner: str = "kdtree") -> None:
        self.queries, self.posts = town_workload(count=300)
        self.store = open_store(folder)
        self.live = dict(
            zip(self.store.subscriptions.add_many([(q,) for q in self.queries]), self.queries, strict=True)
        )
        spec = PlanSpec.parse(partitioner, WORKERS, "anchor")
        self.updater = IndexUpdater(self.store, folder / "index", make_plan_record(spec))
        self.recent = RecentPosts()
        self.recent.add(to_sample(self.posts))
        self.updater.start_refresh(spec.refit(self.recent.posts))
        self.updater.wait_for_build()
        self.updater.refresh()
        self.now = 1_000_000.0
        self.spec, self.options, self.folder = spec, options, folder
        self.seconds_of = lambda posts: 1e-4 * posts
        self.builds = 0
        self.restart()

    def restart(self) -> None:
        arguments = (self.updater, self.spec, self.recent, self.options, self.folder, lambda: self.now)
        self.rebalancer = Rebalancer(*arguments)

    def run_batch(self, posts=None, times: int = 100) -> int:
        """Return the plan version that the batch uses; its posts are counted `times` times."""
        self.rebalancer.before_batch()
        self.builds += self.updater.is_building_plan
        self.updater.wait_for_build()
        index = self.updater.refresh()
        self.rebalancer.on_index_version(index)
        (_, batch, where), *_ = analyze_posts(index.analyzer(), posts or self.posts, len(posts or self.posts))
        stats = RoutingStats.from_routed(open_router(index).route(batch, where))
        sample = to_sample(posts or self.posts)
        for quarter in range(4):  # the window compares the parts of its posts
            part = times // 4 if quarter else times - 3 * (times // 4)
            counts = {"cells": stats.cells, "sent_by_cell": stats.sent_by_cell * part}
            sent = np.bincount(stats.cells % WORKERS, counts["sent_by_cell"], WORKERS).tolist()
            loads = [
                MatcherLoad(number, int(sent[number]), 0, self.seconds_of(sent[number])) for number in range(WORKERS)
            ]
            texts, positions = sample if not quarter else (sample[0][:0], sample[1][:0])
            sampled = {"sample_texts": texts, "sample_positions": positions}
            self.rebalancer.after_batch(index, RoutingStats(stats.spread * part, **counts, **sampled), loads)
        return index.manifest.plan.version

    def matches_are_exact(self) -> bool:
        matches = match_index(self.updater.index, self.posts, 50)
        numbers = list(self.live)
        expected = match_all(self.posts, [parse(query) for query in self.live.values()])
        return matches == sorted((numbers[query], post) for query, post in expected)


def posts_of_one_town(stream: SimulatedStream) -> list:
    """Return the posts of one town."""
    return [post for post in stream.posts if post.lat > 35]


def test_cells_move_after_enough_uneven_posts(start_stream, events):
    stream = start_stream(RebalanceOptions(factor=1.5, interval_s=None))
    town = posts_of_one_town(stream)
    assert len(town) * 100 < 2 * MIN_POSTS
    assert [stream.run_batch(town, 10), stream.run_batch(town)] == [2, 2]
    stream.run_batch(town, 200)
    assert stream.run_batch(town) == 3
    status = stream.rebalancer.status()
    assert status["rebalances"] == 1
    assert status["rebalanced_bytes"] > 0
    assert "cells: " in status["last_rebalance"]["reason"]
    assert any(message.startswith("plan rebalanced reason=") for message in events)
    assert stream.matches_are_exact()
    assert list_divided_shards(stream.updater.index)
    assert stream.run_batch(town) == 3
    assert not list_divided_shards(stream.updater.index), "the shards of the step are merged before the next batch"
    assert stream.matches_are_exact()
    assert stream.rebalancer.status()["rebalances"] == 1


def test_local_steps_have_a_pause_between_them(start_stream):
    stream = start_stream(RebalanceOptions(factor=1.01, interval_s=None))
    north, south = posts_of_one_town(stream), [post for post in stream.posts if post.lat < 20]
    versions = [stream.run_batch(posts, 200) for posts in (north, south, south, south)]
    assert versions == [2, 3, 3, 3]
    stream.now += 60
    assert stream.run_batch(south, 200) == 4


def test_even_seconds_start_nothing_even_if_posts_are_uneven(start_stream):
    """The check compares the measured time only; a machine that is twice as fast gets twice the posts."""
    stream = start_stream(RebalanceOptions(factor=1.5, interval_s=None))
    stream.seconds_of = lambda posts: 1.0
    for _ in range(3):
        stream.now += 60
        assert stream.run_batch(posts_of_one_town(stream), 200) == 2
    assert stream.rebalancer.status()["rebalance_checks"] == 2
    assert stream.builds == 0


def test_short_time_is_not_compared(start_stream):
    stream = start_stream(RebalanceOptions(factor=1.5, interval_s=None))
    stream.seconds_of = lambda posts: 1e-9 * posts
    assert [stream.run_batch(posts_of_one_town(stream), 200) for _ in range(3)] == [2, 2, 2]
    assert stream.rebalancer.status()["rebalance_checks"] == 0


def test_steps_that_do_not_help_are_repeated_more_and_more_rarely(start_stream):
    """All posts are one post, so no cell and no term can be given away."""
    stream = start_stream(RebalanceOptions(factor=1.5, interval_s=None))
    post = [RawPost("w1", 40.7, -74.0)]
    started = []
    for second in range(0, 700, 10):
        stream.now += 10
        before = stream.builds
        assert stream.run_batch(post, 200_000) == 2
        started += [second] if stream.builds > before else []
    assert len(started) == 7  # after pauses of 10, 20, 40, 80, 160 and 320 seconds
    gaps = np.diff(started)
    assert (gaps[1:] > 1.4 * gaps[:-1]).all()


def test_nothing_moves_without_a_factor(start_stream):
    stream = start_stream(RebalanceOptions(factor=None, interval_s=None))
    assert [stream.run_batch(posts_of_one_town(stream), 200) for _ in range(3)] == [2, 2, 2]
    assert stream.rebalancer.status()["rebalances"] == 0


def test_a_better_plan_takes_over_in_slices_and_the_old_one_ends(start_stream):
    settings = GlobalSettings(min_posts=600, min_gain=-10.0, max_slices=3, min_slice=1)
    stream = start_stream(RebalanceOptions(factor=None, interval_s=HOUR_S, global_settings=settings))
    assert [stream.run_batch(), stream.run_batch()] == [2, 2], "the hour has not passed"
    stream.now += HOUR_S
    assert stream.run_batch() == 3
    assert stream.rebalancer.status()["previous_plan_share"] == 1.0
    assert "new subscriptions use it" in stream.rebalancer.status()["last_rebalance"]["reason"]
    assert stream.matches_are_exact()
    shares = []
    for version in (3, 3, 4):  # 300 subscriptions, then 290 and 280
        for number in list(stream.live)[:20]:
            stream.store.subscriptions.remove(number)
            del stream.live[number]
        new = stream.queries[:10]
        stream.live |= dict(zip(stream.store.subscriptions.add_many([(query,) for query in new]), new, strict=True))
        assert stream.run_batch() == version
        assert "moved" in stream.rebalancer.status()["last_rebalance"]["reason"]
        assert stream.matches_are_exact()
        shares.append(stream.rebalancer.status()["previous_plan_share"])
    assert 0.7 > shares[0] > shares[1] > 0
    assert shares[2] is None
    assert stream.rebalancer.status()["rebalanced_bytes"] > 0
    assert stream.rebalancer.status()["rebalances"] == 2, "a slice does not change the plan"
    assert [stream.run_batch(), stream.run_batch()] == [4, 4]


def test_a_plan_without_gain_is_dropped_and_the_time_is_saved(start_stream, tmp_path):
    settings = GlobalSettings(min_posts=600, min_gain=0.99)
    stream = start_stream(RebalanceOptions(factor=None, interval_s=HOUR_S, global_settings=settings))
    stream.run_batch()
    stream.now += HOUR_S
    evaluated_at = stream.now
    assert [stream.run_batch(), stream.run_batch(), stream.run_batch()] == [2, 2, 2]
    evaluation = stream.rebalancer.status()["last_evaluation"]
    assert (evaluation["at"], evaluation["learned_posts"], evaluation["is_adopted"]) == (evaluated_at, 400, False)
    stream.rebalancer.close()
    assert json.loads((tmp_path / "rebalance.json").read_text())["evaluated_at"] == evaluated_at
    stream.restart()
    assert stream.rebalancer.status()["last_evaluation"] == evaluation


def test_nothing_is_evaluated_before_there_are_enough_posts_of_all_runs(start_stream, tmp_path):
    """Each batch has 300 posts; the second run continues with the posts and the schedule of the first one."""
    settings = GlobalSettings(min_posts=1_000, min_gain=-10.0)
    stream = start_stream(RebalanceOptions(factor=None, interval_s=HOUR_S, global_settings=settings))
    stream.now += HOUR_S
    assert [stream.run_batch(times=1) for _ in range(2)] == [2, 2]
    stream.now += HOUR_S
    assert stream.run_batch(times=1) == 2, "only 600 posts"
    stream.rebalancer.close()
    stream.restart()
    assert stream.run_batch(times=1) == 2, "only 900 posts"
    assert stream.run_batch(times=1) == 3


def folders_without_version(stream: SimulatedStream) -> set[str]:
    folder = stream.updater.index.folder
    needed = {name.split("/")[0] for n in list_versions(folder) for name in Index.open(folder, n).manifest.files}
    return {path.name for path in folder.iterdir() if path.is_dir()} - needed


def test_a_failed_slice_leaves_no_files_and_is_tried_again_after_growing_pauses(start_stream, events):
    settings = GlobalSettings(min_posts=600, min_gain=-10.0, max_slices=3, min_slice=1)
    stream = start_stream(RebalanceOptions(factor=None, interval_s=HOUR_S, global_settings=settings))
    stream.run_batch()
    stream.run_batch()
    stream.now += HOUR_S
    assert stream.run_batch() == 3
    assert stream.rebalancer.status()["rebalance_failure"] == {}
    with arm("during-slice") as point:
        for failures, pause in enumerate((60, 120, 240), 1):
            stream.run_batch()
            assert point.is_reached
            failure = stream.rebalancer.status()["rebalance_failure"]
            assert failure == {"count": failures, "reason": ANY, "retry_at": stream.now + pause}
            assert "during-slice" in failure["reason"]
            assert stream.matches_are_exact()
            point.is_reached = False
            stream.now += pause - 1
            stream.run_batch()
            assert not point.is_reached, "the pause is not over"
            assert not folders_without_version(stream)
            stream.now += 1
    assert sum(message.startswith("rebalancing failed error=") for message in events) == 3
    assert [stream.run_batch(), stream.run_batch(), stream.run_batch()] == [3, 3, 4]
    assert stream.rebalancer.status()["rebalance_failure"] == {}
    assert stream.matches_are_exact()


def test_a_failed_evaluation_is_repeated_after_the_pause(start_stream, monkeypatch):
    settings = GlobalSettings(min_posts=600, min_gain=-10.0)
    stream = start_stream(RebalanceOptions(factor=None, interval_s=HOUR_S, global_settings=settings))
    stream.run_batch()
    stream.run_batch()
    stream.now += HOUR_S
    monkeypatch.setattr(global_rebalancer, "evaluate_new_plan", lambda *arguments: 1 / 0)
    assert stream.run_batch() == 2
    monkeypatch.undo()
    assert stream.run_batch() == 2
    stream.now += 60
    assert stream.run_batch() == 3


def test_pauses_are_limited():
    backoff = BuildBackoff()
    for _ in range(200):
        backoff = backoff.add_failure(ValueError("no"), 5.0)
    assert (backoff.failures, backoff.retry_at) == (200, 5.0 + 3_600)
