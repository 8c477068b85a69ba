"""When a stream refreshes its plan, with a simulated clock and without Spark."""

from __future__ import annotations

import threading

import numpy as np
import pyarrow as pa
import pytest

from tidings.balance.refresh_policy import MIN_POSTS, RefreshPolicy
from tidings.balance.spatial_fit import PostSample
from tidings.balance.spec import PlanSpec
from tidings.routing.stats import RoutingStats
from tidings.spark.execution_mode import make_plan_record
from tidings.store import open_store
from tidings.stream.index_updater import IndexUpdater
from tidings.stream.plan_refresh import PlanRefresher

WORDS = [f"word{number}" for number in range(8)]
HOUR_S = 3_600.0


def sample_of(posts: int) -> PostSample:
    return pa.array([" ".join(WORDS)] * posts, pa.large_string()), np.full((posts, 2), np.nan)


class SimulatedStream:
    """A stream of batches that use a PlanRefresher."""

    def __init__(self, folder, policy: RefreshPolicy, partitioner: str = "salb+") -> None:
        self.store = open_store(folder)
        if not list(self.store.subscriptions.all()):
            self.store.subscriptions.add_many([(word,) for word in WORDS])
        spec = PlanSpec.parse(partitioner, 4, "anchor")
        self.updater = IndexUpdater(self.store, folder / "index", make_plan_record(spec))
        self.now = 1_000_000.0
        state_file = folder / "plan.json"
        self.refresher = PlanRefresher(self.updater, self.store, spec, policy, state_file, lambda: self.now)

    def run_batch(self, posts: int = MIN_POSTS, loads=(5_000, 5_000, 5_000, 5_000)) -> int:
        """Return the plan version that the batch uses; a build that it starts is finished before it runs."""
        self.refresher.before_batch()
        self.updater.wait_for_build()
        index = self.updater.refresh()
        self.refresher.on_index_version(index)
        texts, positions = sample_of(posts)
        stats = RoutingStats(spread=np.array([0, posts]), sample_texts=texts, sample_positions=positions)
        self.refresher.after_batch(index, stats, loads)
        return index.manifest.plan.version


def test_the_first_posts_give_a_first_plan(start_stream, events):
    stream = start_stream(RefreshPolicy())
    assert [stream.run_batch() for _ in range(3)] == [1, 2, 2]
    assert events[0].startswith("plan refresh started partitioner=salb+ posts=")
    assert events[1].startswith("plan switched plan_version=2 ")


def test_no_plan_is_learned_from_a_few_posts_that_exist_at_the_start(start_stream, events):
    stream = start_stream(RefreshPolicy())
    stream.refresher.learn_first_plan(lambda: sample_of(MIN_POSTS - 1), threading.Event())
    assert (stream.updater.is_building_plan, events) == (False, [])
    assert stream.run_batch(posts=1) == 1
    assert stream.run_batch() == 2, "one more post is enough"


def test_enough_posts_at_the_start_give_a_first_plan(start_stream):
    stream = start_stream(RefreshPolicy())
    stream.refresher.learn_first_plan(lambda: sample_of(MIN_POSTS), threading.Event())
    assert stream.run_batch() == 2


def test_more_posts_are_sampled_until_there_are_enough(start_stream):
    stream = start_stream(RefreshPolicy())
    stream.run_batch(posts=100)
    assert stream.refresher.sample_texts == 10_000, "all posts of a small batch"
    stream.refresher.after_batch(stream.updater.index, RoutingStats(spread=np.array([0, 200_000])), (1, 1, 1, 1))
    assert stream.refresher.sample_texts == 1_000
    stream.run_batch()
    assert stream.refresher.sample_texts == 200


def test_the_schedule_survives_a_restart(start_stream, events):
    stream = start_stream(RefreshPolicy(HOUR_S))
    assert [stream.run_batch(), stream.run_batch()] == [1, 2]
    stream.now += HOUR_S - 1
    assert stream.run_batch() == 2
    restarted = start_stream(RefreshPolicy(HOUR_S))
    assert [restarted.run_batch(), restarted.run_batch()] == [2, 2], "the hour has not passed"
    events.clear()
    restarted.now += HOUR_S
    assert restarted.run_batch() == 3
    assert "scheduled" in events[0]


def test_a_degraded_plan_is_replaced_and_the_new_one_has_its_own_baseline(start_stream):
    stream = start_stream(RefreshPolicy(factor=1.5))
    assert [stream.run_batch(), stream.run_batch(), stream.run_batch()] == [1, 2, 2]
    assert stream.refresher.status()["plan_value_when_learned"] == 2.0
    uneven = (9_000, 1_000, 5_000, 5_000)
    assert stream.run_batch(loads=uneven) == 2
    assert stream.run_batch(loads=uneven) == 3
    assert stream.refresher.status()["plan_value_when_learned"] == pytest.approx(3.6)
    assert [stream.run_batch(loads=uneven) for _ in range(3)] == [3, 3, 3]


def test_a_failed_refresh_is_logged_and_tried_again_later(start_stream, monkeypatch, events):
    stream = start_stream(RefreshPolicy())
    stream.run_batch()
    monkeypatch.setattr(PlanSpec, "refit", lambda self, sample: lambda terms, conjunctions: 1 / 0)
    assert [stream.run_batch(), stream.run_batch()] == [1, 1]
    assert sum(message.startswith("plan refresh failed error=") for message in events) == 1
    monkeypatch.undo()
    stream.now += 61
    assert stream.run_batch() == 2


def test_a_requested_refresh_of_hashed_words_is_ignored_with_a_warning(start_stream, events):
    stream = start_stream(RefreshPolicy(HOUR_S), "hash")
    stream.store.plan_refresh.request()
    stream.now += 2 * HOUR_S
    assert [stream.run_batch(), stream.run_batch()] == [1, 1]
    assert events == ["plan refresh ignored reason=\"partitioner 'hash' does not learn from posts\""]
    assert stream.refresher.sample_texts == 0
