"""Every change of the store is in the next index version."""

from __future__ import annotations

import threading

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.errors import IndexDamaged
from tidings.index.builder import MIN_CHOICES, prepare_merge
from tidings.index.manifest import PlanRecord, list_versions
from tidings.index.reader import Index
from tidings.matching.brute_force import RawPost
from tidings.store import open_store, subscriptions
from tidings.stream import index_updater
from tidings.stream.index_updater import IndexUpdater
from tidings.stream.recent_terms import MIN_COUNTED_POSTS
from tidings.testing.pipeline import match_index

POSTS = [RawPost("cats and dogs"), RawPost("storm"), RawPost("fish", 3.0, 3.0)]
PLANS = [None, PlanRecord("hash", 3, 7)]
both_plans = pytest.mark.parametrize("plan", PLANS, ids=["replicated", "partitioned"])


@both_plans
def test_the_next_version_contains_all_changes(tmp_path, plan):
    with open_store(tmp_path) as store:
        updater = IndexUpdater(store, tmp_path / "index", plan)
        assert match_index(updater.refresh(), POSTS, 5) == []
        cat = store.subscriptions.add("cat")
        fish = store.subscriptions.add("fish", region=(0.0, 0.0, 9.0, 9.0))
        assert sorted(match_index(updater.refresh(), POSTS, 5)) == [(cat, 0), (fish, 2)]
        store.subscriptions.remove(cat)
        dog = store.subscriptions.add("dog")
        assert sorted(match_index(updater.refresh(), POSTS, 5)) == [(fish, 2), (dog, 0)]
        before = updater.index.version
        assert updater.refresh().version == before, "nothing changed"


@both_plans
def test_a_second_start_continues_from_the_first(tmp_path, plan):
    with open_store(tmp_path) as store:
        store.subscriptions.add("cat")
        first = IndexUpdater(store, tmp_path / "index", plan).refresh()
        store.subscriptions.add("dog")
        second = IndexUpdater(store, tmp_path / "index", plan)
        assert second.index.version == first.version
        assert sorted(match_index(second.refresh(), POSTS, 5)) == [(1, 0), (2, 0)]


def test_another_plan_rebuilds_the_index(tmp_path):
    with open_store(tmp_path) as store:
        store.subscriptions.add("cat")
        first = IndexUpdater(store, tmp_path / "index").refresh()
        other = IndexUpdater(store, tmp_path / "index", PLANS[1]).refresh()
        assert other.version == first.version + 1
        assert match_index(other, POSTS, 5) == [(1, 0)]


def test_a_truncated_change_log_rebuilds_the_index(tmp_path):
    with open_store(tmp_path) as store:
        store.subscriptions.add("cat")
        updater = IndexUpdater(store, tmp_path / "index")
        store.subscriptions.add("dog")
        store.database.execute("UPDATE counter SET value = 2 WHERE name = 'forgotten'")
        assert sorted(match_index(updater.refresh(), POSTS, 5)) == [(1, 0), (2, 0)]


@both_plans
@settings(max_examples=8, deadline=None)
@given(steps=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 30)), min_size=3, max_size=10))
def test_a_background_merge_loses_no_change(tmp_path_factory, plan, steps):
    folder = tmp_path_factory.mktemp("state")
    index_updater._MERGE_MIN_CHANGES, saved = 2, index_updater._MERGE_MIN_CHANGES
    try:
        with open_store(folder) as store:
            updater = IndexUpdater(store, folder / "index", plan)
            live: dict[int, str] = {}
            for added, removed in steps:
                for number in store.subscriptions.add_many([(f"cat word{added}", "", None)] * added):
                    live[number] = "cat"
                if removed in live:
                    store.subscriptions.remove(removed)
                    del live[removed]
                index = updater.refresh()
                assert index.manifest.subscriptions == len(live)
                posts = [RawPost(" ".join(f"cat word{n}" for n in range(5)))]
                assert sorted(match_index(index, posts, 5)) == [(number, 0) for number in sorted(live)]
            updater.wait_for_build()
            updater.delete_old_versions()
            assert len(list_versions(folder / "index")) <= index_updater._KEPT_VERSIONS
    finally:
        index_updater._MERGE_MIN_CHANGES = saved


@both_plans
def test_a_build_that_starts_before_the_first_refresh_loses_no_change(tmp_path, plan):
    with open_store(tmp_path) as store:
        store.subscriptions.add_many([("cat", "")] * 3)
        IndexUpdater(store, tmp_path / "index", plan).refresh()
        store.subscriptions.add_many([("dog", "")] * 2)
        store.subscriptions.remove(1)
        updater = IndexUpdater(store, tmp_path / "index", plan)
        assert updater.start_build(prepare_merge)  # the rebalancer may do so before the first batch
        updater.refresh()
        updater.wait_for_build()
        assert sorted(match_index(updater.refresh(), POSTS, 5)) == [(2, 0), (3, 0), (4, 0), (5, 0)]


@both_plans
def test_changes_during_a_build_are_repeated_once(tmp_path, plan, monkeypatch):
    monkeypatch.setattr(subscriptions, "_PAGE_IDS", 2)  # a page does not repeat an id, but the next one would
    may_continue = threading.Event()
    with open_store(tmp_path) as store:
        updater = IndexUpdater(store, tmp_path / "index", plan)
        updater.refresh()
        assert updater.start_build(lambda index: may_continue.wait(60) and prepare_merge(index))
        for _ in range(2):
            store.subscriptions.add_many([("cat", "")] * 3)
            updater.refresh()
        may_continue.set()
        updater.wait_for_build()
        store.subscriptions.add_many([("cat", "")] * 3)
        index = updater.refresh()
        assert sorted(match_index(index, POSTS, 5)) == [(number, 0) for number in range(1, 10)]
        assert index.manifest.subscriptions == 9


def test_pinned_versions_are_kept(tmp_path):
    with open_store(tmp_path) as store:
        updater = IndexUpdater(store, tmp_path / "index")
        store.subscriptions.add("cat")
        pinned = updater.refresh().version
        store.batches.begin("s", 0, pinned, 1)
        for number in range(12):
            store.subscriptions.add(f"word{number}")
            updater.refresh()
        updater.delete_old_versions()
        assert pinned in list_versions(tmp_path / "index")
        assert match_index(updater.open_version(pinned), POSTS, 5) == [(1, 0)]
        store.batches.commit("s", 0, pa.table({"id": pa.array([], pa.int64())}), _no_matches())
        updater.delete_old_versions()
        assert pinned not in list_versions(tmp_path / "index")


def test_pins_of_an_older_stream_are_ignored(tmp_path):
    with open_store(tmp_path) as store:
        store.batches.begin("deleted", 7, 3, 1)
        assert store.batches.pinned_versions() == {3}
        store.batches.begin("new", 0, 9, 1)
        assert store.batches.pinned_versions() == {9}


def test_the_input_version_of_a_merge_is_kept(tmp_path, monkeypatch):
    may_continue = threading.Event()
    monkeypatch.setattr(index_updater, "_MERGE_MIN_CHANGES", 0)
    monkeypatch.setattr(index_updater, "prepare_merge", lambda *args: may_continue.wait(60) and prepare_merge(*args))
    with open_store(tmp_path) as store:
        updater = IndexUpdater(store, tmp_path / "index")
        store.subscriptions.add("cat")
        input_version = updater.refresh().version
        for number in range(12):
            store.subscriptions.add(f"word{number} cat")
            updater.refresh()
        updater.delete_old_versions()
        assert input_version in list_versions(tmp_path / "index")
        may_continue.set()
        updater.wait_for_build()
        posts = [RawPost("cat " + " ".join(f"word{number}" for number in range(12)))]
        assert len(match_index(updater.refresh(), posts, 5)) == 13
        updater.wait_for_build()
        updater.delete_old_versions()
        assert input_version not in list_versions(tmp_path / "index")


def test_a_merge_without_disk_space_leaves_the_index_unchanged(tmp_path, monkeypatch):
    attempts = []

    def fail(index, statistics):
        attempts.append(index.version)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(index_updater, "_MERGE_MIN_CHANGES", 1)
    monkeypatch.setattr(index_updater, "prepare_merge", fail)
    with open_store(tmp_path) as store:
        updater = IndexUpdater(store, tmp_path / "index")
        for number in range(1, 9):
            store.subscriptions.add("cat")
            assert len(match_index(updater.refresh(), POSTS, 5)) == number
            updater.wait_for_build()
    assert "No space" in str(updater.merge_error)
    assert 1 < len(attempts) < 5  # not after every change, and again later


def test_a_merge_of_a_damaged_index_raises(tmp_path, monkeypatch):
    def fail(index, statistics):
        raise ValueError("no such word")

    monkeypatch.setattr(index_updater, "_MERGE_MIN_CHANGES", 0)
    monkeypatch.setattr(index_updater, "prepare_merge", fail)
    with open_store(tmp_path) as store:
        updater = IndexUpdater(store, tmp_path / "index")
        store.subscriptions.add("cat")
        updater.refresh()
        updater.wait_for_build()
        with pytest.raises(IndexDamaged, match="could not be merged: no such word"):
            updater.refresh()


def test_close_does_not_wait_for_a_long_build(tmp_path, monkeypatch):
    may_continue = threading.Event()
    monkeypatch.setattr(index_updater, "_CLOSE_TIMEOUT_S", 0.01)
    with open_store(tmp_path) as store:
        updater = IndexUpdater(store, tmp_path / "index")
        try:
            assert updater.start_build(lambda index: may_continue.wait(60) and None)
            updater.close()
            assert updater.is_building_plan
            assert not updater.build_is_ready
        finally:
            may_continue.set()


def _orphans(folder):
    needed = {name.split("/")[0] for n in list_versions(folder) for name in Index.open(folder, n).manifest.files}
    return {path.name for path in folder.iterdir() if path.is_dir()} - needed


def test_builds_that_failed_or_were_discarded_leave_no_files(tmp_path):
    may_continue = threading.Event()

    def fail(index):
        prepare_merge(index)
        raise OSError(28, "No space left on device")

    with open_store(tmp_path) as store:
        store.subscriptions.add("cat")
        updater = IndexUpdater(store, tmp_path / "index")
        updater.refresh()
        assert updater.start_build(fail)
        updater.wait_for_build()
        assert _orphans(tmp_path / "index")
        updater.refresh()
        assert not _orphans(tmp_path / "index")
        assert updater.start_build(lambda index: (prepare_merge(index), may_continue.wait(60))[0])
        discarded = updater._build
        store.subscriptions.add("dog")
        store.database.execute("UPDATE counter SET value = 2 WHERE name = 'forgotten'")
        updater.refresh()
        assert not updater.is_building_plan
        may_continue.set()
        discarded.join()
        assert _orphans(tmp_path / "index")
        assert sorted(match_index(updater.refresh(), POSTS, 5)) == [(1, 0), (2, 0)]
        assert not _orphans(tmp_path / "index")


def test_plan_builds_take_turns_with_others(tmp_path, monkeypatch):
    """A merge is due at every refresh; a plan build that was refused comes next."""
    monkeypatch.setattr(index_updater, "_MERGE_MIN_CHANGES", 0)
    monkeypatch.setattr(index_updater, "_MERGE_FRACTION", 1_000_000)
    with open_store(tmp_path) as store:
        updater = IndexUpdater(store, tmp_path / "index", PLANS[1])
        ids = iter(store.subscriptions.add_many([("cat", "")] * 30))
        updater.refresh()

        def change() -> None:
            store.subscriptions.remove(next(ids))
            updater.refresh()
            updater.wait_for_build()

        for builds in range(1, 5):
            change()
            assert not updater.start_build(prepare_merge), "a merge is running"
            change()
            assert updater.start_build(prepare_merge)
            change()
            change()
            assert updater.plan_builds == builds
            assert not updater.is_building_plan, "a merge follows"
            change()


def _no_matches() -> pa.Table:
    return pa.table({"subscription": pa.array([], pa.int64()), "post_row": pa.array([], pa.int64())})


def anchors_of(index: Index) -> set[bytes]:
    """Return all anchors of the base segments."""
    views = [view for number in range(len(index.manifest.shards)) for view in index.open_shard(number)[:1]]
    return {index.vocabulary.text_of(term) for view in views for term in view.segment.anchors.tolist()}


def add_posts(updater: IndexUpdater, *texts: str) -> None:
    """Add as many recent posts as are counted."""
    rows = pa.array(list(texts) * (MIN_COUNTED_POSTS // len(texts)), pa.large_string())
    updater.terms.recent.add((rows, np.full((len(rows), 2), np.nan)))


@both_plans
def test_anchors_are_chosen_by_recent_posts_once_there_are_enough(tmp_path, plan):
    with open_store(tmp_path) as store:
        store.subscriptions.add_many([("storm zebra",)] * MIN_CHOICES)
        store.subscriptions.add_many([("storm owl",)] * 9)
        updater = IndexUpdater(store, tmp_path / "index", plan)
        before = updater.refresh()
        assert anchors_of(before) == {b"zebra", b"owl"}, "storm has more subscriptions"
        add_posts(updater, "zebra", "zebra cat")
        updater.refresh()
        updater.wait_for_build()
        index = updater.refresh()
        assert index.statistics.posts == MIN_COUNTED_POSTS
        assert anchors_of(index) == {b"storm", b"owl"}, "no post contains them"
        posts = [RawPost("storm zebra"), RawPost("owl in a storm"), RawPost("zebra owl")]
        assert match_index(index, posts, 5) == match_index(before, posts, 5)
        updater.refresh()
        updater.wait_for_build()
        assert updater.refresh().version == index.version, "counted once"


@both_plans
def test_merges_count_the_terms_of_recent_posts(tmp_path, plan, monkeypatch):
    monkeypatch.setattr(index_updater, "_MERGE_MIN_CHANGES", 0)
    with open_store(tmp_path) as store:
        store.subscriptions.add_many([("storm zebra",)] * MIN_CHOICES)
        updater = IndexUpdater(store, tmp_path / "index", plan)
        add_posts(updater, "zebra")
        updater.refresh()
        updater.wait_for_build()
        assert anchors_of(updater.refresh()) == {b"storm"}
        for _ in range(20):  # more than are kept
            add_posts(updater, "storm")
        store.subscriptions.add_many([("storm zebra",)] * MIN_CHOICES)
        for _ in range(9):
            updater.refresh()
            updater.wait_for_build()
        assert anchors_of(updater.index) == {b"zebra"}


def test_small_indexes_are_not_sampled(tmp_path):
    with open_store(tmp_path) as store:
        store.subscriptions.add_many([("storm zebra",)] * 9)
        updater = IndexUpdater(store, tmp_path / "index")
        add_posts(updater, "zebra")
        assert updater.terms.sample_rate(updater.refresh()) == 0
        updater.wait_for_build()
        assert updater.refresh().statistics.posts == 0
