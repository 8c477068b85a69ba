"""When a stream refreshes its plan, with a simulated clock and without Spark."""

from __future__ import annotations

import itertools
import shutil
import threading
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from tidings.balance.plan_comparison import PlanComparison, learn_and_compare
from tidings.balance.refresh_policy import MIN_POSTS, RefreshPolicy
from tidings.balance.salb_work_aware import fit_texts
from tidings.balance.spatial_fit import PostSample
from tidings.balance.spec import PlanSpec
from tidings.index.plan_files import load_word_plan
from tidings.matching.brute_force import RawPost
from tidings.plan.words import hash_to_matchers, write_word_plan
from tidings.routing.stats import RoutingStats
from tidings.spark.execution_mode import make_plan_record
from tidings.store import open_store
from tidings.stream import plan_refresh
from tidings.stream.index_bootstrap import open_or_build_index
from tidings.stream.index_updater import IndexUpdater
from tidings.stream.options import StreamOptions
from tidings.stream.plan_refresh import PlanRefresher
from tidings.testing.pipeline import match_index

HOUR_S = 3_600.0
WORDS, TOPICS = 300, 30


def sample_of(posts: int, topics: int = 0, seed: int = 0) -> PostSample:
    """Return posts of three words of a topic. Other `topics` divide the same words in another way."""
    rng, weights = np.random.default_rng(seed), 1 / np.arange(1, TOPICS + 1)
    drawn = rng.choice(TOPICS, posts, p=weights / weights.sum())
    words = np.random.default_rng(topics).permutation(WORDS).reshape(TOPICS, -1)[drawn]
    texts = [" ".join(f"word{number}" for number in row) for row in rng.permuted(words, axis=1)[:, :3].tolist()]
    return pa.array(texts, pa.large_string()), np.full((posts, 2), np.nan)


class SimulatedStream:
    """A stream of batches that use a PlanRefresher."""

    def __init__(self, folder, policy: RefreshPolicy, partitioner: str = "salb+") -> None:
        self.store = open_store(folder)
        self.seeds = itertools.count(1)
        if not list(self.store.subscriptions.all()):
            self.store.subscriptions.add_many([(f"word{number}",) for number in range(WORDS)])
        spec = PlanSpec.parse(partitioner, 4, "anchor")
        self.updater = IndexUpdater(self.store, folder / "index", make_plan_record(spec), spec.plan)
        self.now = 1_000_000.0
        state_file = folder / "plan.json"
        self.refresher = PlanRefresher(self.updater, self.store, spec, policy, state_file, lambda: self.now)

    def run_batch(self, posts: int = MIN_POSTS, loads=(5_000, 5_000, 5_000, 5_000), topics: int = 0) -> int:
        """Return the plan version that the batch uses; a build that it starts is finished before it runs."""
        self.refresher.before_batch()
        self.updater.wait_for_build()
        index = self.updater.refresh()
        self.refresher.on_index_version(index)
        texts, positions = sample_of(posts, topics, next(self.seeds))
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
    assert stream.refresher.sample_texts == 2_000
    stream.run_batch(posts=100)
    assert stream.refresher.sample_texts == 10_000
    stream.refresher.after_batch(stream.updater.index, RoutingStats(spread=np.array([0, 200_000])), (1, 1, 1, 1))
    assert stream.refresher.sample_texts == 200


def test_the_schedule_survives_a_restart(start_stream, events):
    stream = start_stream(RefreshPolicy(HOUR_S))
    assert [stream.run_batch(), stream.run_batch()] == [1, 2]
    stream.now += HOUR_S - 1
    assert stream.run_batch() == 2
    restarted = start_stream(RefreshPolicy(HOUR_S))
    assert [restarted.run_batch(topics=1), restarted.run_batch(topics=1)] == [2, 2], "the hour has not passed"
    events.clear()
    restarted.now += HOUR_S
    assert restarted.run_batch() == 3
    assert "scheduled" in events[0]


def test_a_plan_is_kept_if_a_new_one_is_not_better(start_stream, events):
    stream = start_stream(RefreshPolicy(HOUR_S))
    assert [stream.run_batch(), stream.run_batch()] == [1, 2]
    for hours in range(1, 4):
        stream.now += HOUR_S
        events.clear()
        assert [stream.run_batch(), stream.run_batch()] == [2, 2]
        assert [event.split(" ")[:2] for event in events] == [["plan", "refresh"], ["plan", "kept"]], hours
    last = stream.refresher.status()["last_plan_comparison"]
    assert (last["is_replaced"], last["low_gain"] < 1 < last["gain"] + 0.1) == (False, True)
    stream.now += HOUR_S - 1
    assert stream.run_batch(10 * MIN_POSTS, topics=1) == 2, "the schedule starts again"
    stream.now += 1
    assert stream.run_batch(topics=1) == 3, "other words occur together now"
    assert stream.refresher.status()["last_plan_comparison"]["is_replaced"]


def test_a_requested_plan_is_not_used_if_it_is_not_better(start_stream, events):
    stream = start_stream(RefreshPolicy(None, None))
    assert [stream.run_batch(), stream.run_batch()] == [1, 2]
    for _ in range(2):  # the second request does not wait
        stream.store.plan_refresh.request()
        assert stream.run_batch() == 2
        assert stream.store.plan_refresh.pending_requests() == 0
    assert sum(event.startswith("plan kept plan_version=2 gain=") for event in events) == 2
    stream.run_batch(10 * MIN_POSTS, topics=1)
    stream.store.plan_refresh.request()
    assert stream.run_batch() == 3


def test_a_first_plan_that_is_not_better_is_learned_again_later(start_stream, events, monkeypatch):
    comparison = PlanComparison(1.2, 0.99, 3_000)
    monkeypatch.setattr(plan_refresh, "learn_and_compare", lambda *args: (learn_and_compare(*args)[0], comparison))
    stream = start_stream(RefreshPolicy())
    waits = []
    for _ in range(8):
        before, started_at = len(events), stream.now
        while len(events) == before:
            stream.now += 30
            stream.run_batch(posts=MIN_POSTS // 100, loads=(1, 1, 1, 1)) if waits else stream.run_batch()
        waits.append(stream.now - started_at)
    assert stream.refresher.history.version == 1
    assert waits[-1] == HOUR_S, waits
    assert waits == sorted(waits)


def test_a_degraded_plan_is_replaced_and_the_new_one_has_its_own_baseline(start_stream):
    stream = start_stream(RefreshPolicy(factor=1.5))
    assert [stream.run_batch(), stream.run_batch(), stream.run_batch()] == [1, 2, 2]
    assert stream.refresher.status()["plan_value_when_learned"] == 2.0
    uneven = (9_000, 1_000, 5_000, 5_000)
    assert stream.run_batch(10 * MIN_POSTS, tuple(10 * load for load in uneven), topics=1) == 2
    assert stream.run_batch(loads=uneven, topics=1) == 3
    assert stream.refresher.status()["plan_value_when_learned"] == pytest.approx(3.6)
    assert [stream.run_batch(loads=uneven, topics=1) for _ in range(3)] == [3, 3, 3]


def test_a_degraded_plan_that_cannot_be_improved_has_a_new_baseline(start_stream, events):
    stream = start_stream(RefreshPolicy(factor=1.5))
    assert [stream.run_batch(), stream.run_batch(), stream.run_batch()] == [1, 2, 2]
    uneven = (9_000, 1_000, 5_000, 5_000)
    assert [stream.run_batch(loads=uneven) for _ in range(2)] == [2, 2]
    assert events[-1].startswith("plan kept ")
    assert stream.refresher.status()["plan_value_when_learned"] == pytest.approx(3.6)
    stream.now += HOUR_S
    assert [stream.run_batch(loads=uneven) for _ in range(3)] == [2, 2, 2]
    assert events[-1].startswith("plan kept "), "it is not learned again and again"


def test_a_failed_refresh_is_logged_and_tried_again_later(start_stream, monkeypatch, events):
    stream = start_stream(RefreshPolicy())
    stream.run_batch()
    monkeypatch.setattr(plan_refresh, "learn_and_compare", lambda *arguments: 1 / 0)
    assert [stream.run_batch(), stream.run_batch()] == [1, 1]
    assert sum(message.startswith("plan refresh failed error=") for message in events) == 1
    monkeypatch.undo()
    stream.now += 61
    assert stream.run_batch() == 2


def test_hashed_words_get_splits_of_hot_ones_once_there_are_posts(start_stream, events):
    stream = start_stream(RefreshPolicy(), "hash")
    texts = pa.array(["word7", "word7 word8"] * MIN_POSTS, pa.large_string())
    positions = np.full((len(texts), 2), np.nan)
    stats = RoutingStats(spread=np.array([0, len(texts)]), sample_texts=texts, sample_positions=positions)
    stream.refresher.after_batch(stream.updater.refresh(), stats, (0, 0, 0, 2 * MIN_POSTS))
    assert stream.run_batch() == 2
    index = stream.updater.index
    plan = load_word_plan(index.folder, index.manifest.plan)
    words = [f"word{number}".encode() for number in range(WORDS)]
    splits = plan.splits_of(words)
    assert plan.algorithm == "hash"
    assert np.flatnonzero(splits.counts > 1).tolist() == [7, 8]
    assert splits.matchers[splits.starts[:-1].astype(int)].tolist() == hash_to_matchers(words, 4).tolist()
    assert any(len(view.split_terms) for number in range(4) for view in index.open_shard(number))


def test_a_requested_refresh_in_replicated_mode_is_ignored_with_a_warning(tmp_path, events):
    with open_store(tmp_path) as store:
        refresher = PlanRefresher(IndexUpdater(store, tmp_path / "index"), store)
        store.plan_refresh.request()
        refresher.before_batch()
        assert events == ['plan refresh ignored reason="the execution mode is replicated"']
        assert refresher.sample_texts == 0


def test_a_refresher_without_a_state_file_writes_none(tmp_path):
    stream = SimulatedStream(tmp_path, RefreshPolicy())
    before = {path for path in tmp_path.rglob("*") if "index" not in path.parts}
    stream.refresher = PlanRefresher(stream.updater, stream.store, PlanSpec.parse("salb+", 4, "anchor"))
    for _ in range(3):
        stream.run_batch()
    assert stream.refresher.history.is_learned
    assert stream.refresher.history.first_value is not None
    assert {path for path in tmp_path.rglob("*") if "index" not in path.parts} == before


def matched_pairs(index) -> list[tuple[int, int]]:
    posts = [RawPost(text) for text in sample_of(50)[0].to_pylist()]
    return sorted(match_index(index, posts, 20))


@pytest.mark.parametrize("partitioner", ["salb+", "hash"])
def test_the_number_of_matchers_changes_between_two_batches(start_stream, events, partitioner):
    stream = start_stream(RefreshPolicy(), partitioner)
    version = [stream.run_batch(), stream.run_batch()][-1]
    before, pairs = stream.updater.index, matched_pairs(stream.updater.index)
    for wanted in (7, 2):
        stream.store.plan_refresh.request_matchers(wanted)
        assert stream.refresher.status()["wanted_matchers"] == wanted
        version += 1
        assert stream.run_batch(loads=(5_000,) * wanted) == version
        index = stream.updater.index
        assert (len(index.manifest.shards), index.manifest.plan.matchers) == (wanted, wanted)
        assert matched_pairs(index) == pairs
        assert stream.refresher.status()["wanted_matchers"] is None
    assert stream.run_batch(loads=(5_000, 5_000)) == version, "it is done once"
    assert len(stream.updater.open_version(before.version).manifest.shards) == 4, "a batch may be pinned to it"
    assert sum(event.startswith("resized ") for event in events) == 2
    stream.now += 2 * HOUR_S
    stream.run_batch(10 * MIN_POSTS, (50_000, 50_000), topics=1)
    stream.store.plan_refresh.request()
    if partitioner == "salb+":
        assert stream.run_batch(loads=(5_000, 5_000)) == version + 1, "later plans are for two matchers too"
        assert len(stream.updater.index.manifest.shards) == 2


def test_a_resize_during_which_subscriptions_change_loses_none(start_stream):
    stream = start_stream(RefreshPolicy())
    stream.run_batch()
    stream.run_batch()
    stream.store.plan_refresh.request_matchers(3)
    stream.refresher.before_batch()
    assert stream.updater.is_building_plan
    added = stream.store.subscriptions.add("word1 word2")
    stream.store.subscriptions.remove(5)
    stream.run_batch(loads=(5_000,) * 3)
    stream.run_batch(loads=(5_000,) * 3)
    index = stream.updater.index
    assert (len(index.manifest.shards), index.manifest.subscriptions) == (3, WORDS)
    posts = [RawPost("word1 word2"), RawPost("word4")]
    assert sorted(match_index(index, posts, 5)) == [(2, 0), (3, 0), (added, 0)]


def test_a_resize_survives_a_restart_and_the_option_of_a_later_start_counts(start_stream, tmp_path):
    stream = start_stream(RefreshPolicy())
    stream.run_batch()
    stream.store.plan_refresh.request_matchers(6)  # and the process is killed
    restarted = start_stream(RefreshPolicy())
    assert restarted.run_batch(loads=(5_000,) * 6) == 2
    assert len(restarted.updater.index.manifest.shards) == 6
    options = StreamOptions("posts", str(tmp_path), tmp_path, execution_mode="partitioned")
    updater, spec = open_or_build_index(options, stream.store)
    assert (updater.index.version, spec.matchers) == (restarted.updater.index.version, 6), "without --matchers"
    updater, spec = open_or_build_index(replace(options, matchers=3), stream.store)
    assert (updater.index.version, spec.matchers) == (restarted.updater.index.version, 6), "nothing is built at once"
    assert stream.store.plan_refresh.wanted_matchers() == 3
    shutil.rmtree(tmp_path / "index")
    updater, spec = open_or_build_index(options, stream.store)
    assert (len(updater.index.manifest.shards), spec.matchers) == (3, 3), "a lost index has the number wanted last"


def test_a_stream_with_a_plan_file_is_not_resized(start_stream, events, tmp_path):
    texts = sample_of(500)[0]
    write_word_plan(fit_texts("salb+", texts, None, None, 4), tmp_path / "w.plan")
    stream = start_stream(RefreshPolicy(None, None), str(tmp_path / "w.plan"))
    stream.store.plan_refresh.request_matchers(6)
    versions = [stream.run_batch(), stream.run_batch()]
    assert versions[0] == versions[1]
    assert events == ['resize ignored matchers=6 reason="the plan file is for 4 matchers"']
    assert stream.refresher.status()["wanted_matchers"] is None


def test_a_resize_that_fails_is_tried_again_later(start_stream, events, monkeypatch):
    stream = start_stream(RefreshPolicy())
    monkeypatch.setattr(plan_refresh, "prepare_new_plan", lambda *arguments: 1 / 0)
    stream.store.plan_refresh.request_matchers(6)
    assert [stream.run_batch(posts=10), stream.run_batch(posts=10)] == [1, 1]
    assert sum(event.startswith("resize started ") for event in events) == 1
    monkeypatch.undo()
    stream.now += 61
    stream.run_batch(posts=10, loads=(10,) * 6)
    assert len(stream.updater.index.manifest.shards) == 6
