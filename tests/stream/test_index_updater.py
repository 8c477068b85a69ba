"""The follower: every change of the store is in the next version, however it came about."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contract.matchers import match_index

from tidings.errors import IndexDamaged
from tidings.index.builder import prepare_merge
from tidings.index.manifest import PlanRecord, versions
from tidings.matching.brute_force import ScanPost
from tidings.store import open_store
from tidings.stream import index_updater
from tidings.stream.index_updater import Follower

POSTS = [ScanPost("cats and dogs"), ScanPost("storm"), ScanPost("fish", 3.0, 3.0)]
PLANS = [None, PlanRecord("hash", 3, 7)]
both_plans = pytest.mark.parametrize("plan", PLANS, ids=["replicated", "partitioned"])


@both_plans
def test_changes_are_in_the_next_version(tmp_path, plan):
    with open_store(tmp_path) as store:
        follower = Follower(store, tmp_path / "index", plan)
        assert match_index(follower.refresh(), POSTS, 5) == []
        cat = store.subscribe("cat")
        fish = store.subscribe("fish", region=(0.0, 0.0, 9.0, 9.0))
        assert sorted(match_index(follower.refresh(), POSTS, 5)) == [(cat, 0), (fish, 2)]
        store.unsubscribe(cat)
        dog = store.subscribe("dog")
        assert sorted(match_index(follower.refresh(), POSTS, 5)) == [(fish, 2), (dog, 0)]
        before = follower.index.version
        assert follower.refresh().version == before, "nothing changed, so there is no new version"


@both_plans
def test_a_second_start_goes_on_from_the_first(tmp_path, plan):
    with open_store(tmp_path) as store:
        store.subscribe("cat")
        first = Follower(store, tmp_path / "index", plan).refresh()
        store.subscribe("dog")
        second = Follower(store, tmp_path / "index", plan)
        assert second.index.version == first.version
        assert sorted(match_index(second.refresh(), POSTS, 5)) == [(1, 0), (2, 0)]


def test_another_plan_makes_a_new_version_of_everything(tmp_path):
    with open_store(tmp_path) as store:
        store.subscribe("cat")
        first = Follower(store, tmp_path / "index").refresh()
        other = Follower(store, tmp_path / "index", PLANS[1]).refresh()
        assert other.version == first.version + 1
        assert match_index(other, POSTS, 5) == [(1, 0)]


def test_a_log_that_was_forgotten_makes_everything_anew(tmp_path):
    with open_store(tmp_path) as store:
        store.subscribe("cat")
        follower = Follower(store, tmp_path / "index")
        store.subscribe("dog")
        store.database.run("UPDATE counter SET value = 2 WHERE name = 'forgotten'")
        assert sorted(match_index(follower.refresh(), POSTS, 5)) == [(1, 0), (2, 0)]


@both_plans
@settings(max_examples=8, deadline=None)
@given(steps=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 30)), min_size=3, max_size=10))
def test_merging_aside_loses_no_change(tmp_path_factory, plan, steps):
    folder = tmp_path_factory.mktemp("state")
    index_updater._LEAST, least = 2, index_updater._LEAST
    try:
        with open_store(folder) as store:
            follower = Follower(store, folder / "index", plan)
            live: dict[int, str] = {}
            for more, gone in steps:
                for number in store.subscribe_many([(f"cat word{more}", "", None)] * more):
                    live[number] = "cat"
                if gone in live:
                    store.unsubscribe(gone)
                    del live[gone]
                index = follower.refresh()
                assert index.manifest.subscriptions == len(live)
                said = [ScanPost(" ".join(f"cat word{n}" for n in range(5)))]
                assert sorted(match_index(index, said, 5)) == [(number, 0) for number in sorted(live)]
            follower.until_made()
            follower.retire()
            assert len(versions(folder / "index")) <= index_updater._KEPT_VERSIONS
    finally:
        index_updater._LEAST = least


def test_versions_that_batches_are_pinned_to_stay(tmp_path):
    with open_store(tmp_path) as store:
        follower = Follower(store, tmp_path / "index")
        store.subscribe("cat")
        pinned = follower.refresh().version
        store.begin("s", 0, pinned, 1)
        for number in range(12):
            store.subscribe(f"word{number}")
            follower.refresh()
        follower.retire()
        assert pinned in versions(tmp_path / "index")
        assert match_index(follower.version(pinned), POSTS, 5) == [(1, 0)]
        store.commit("s", 0, pa.table({"id": pa.array([], pa.int64())}), _no_matches())
        follower.retire()
        assert pinned not in versions(tmp_path / "index")


def test_pins_of_a_stream_whose_checkpoint_was_deleted_keep_nothing(tmp_path):
    with open_store(tmp_path) as store:
        store.begin("deleted", 7, 3, 1)
        assert store.pinned() == {3}
        store.begin("new", 0, 9, 1)
        assert store.pinned() == {9}


def test_the_version_that_is_being_merged_stays(tmp_path, monkeypatch):
    going_on = threading.Event()
    monkeypatch.setattr(index_updater, "_LEAST", 0)
    monkeypatch.setattr(index_updater, "prepare_merge", lambda index: going_on.wait(60) and prepare_merge(index))
    with open_store(tmp_path) as store:
        follower = Follower(store, tmp_path / "index")
        store.subscribe("cat")
        merging = follower.refresh().version
        for number in range(12):
            store.subscribe(f"word{number} cat")
            follower.refresh()
        follower.retire()
        assert merging in versions(tmp_path / "index")
        going_on.set()
        follower.until_made()
        said = [ScanPost("cat " + " ".join(f"word{number}" for number in range(12)))]
        assert len(match_index(follower.refresh(), said, 5)) == 13
        follower.until_made()
        follower.retire()
        assert merging not in versions(tmp_path / "index")


def test_a_merge_for_which_there_is_no_room_leaves_the_index_as_it_was(tmp_path, monkeypatch):
    tried = []

    def fails(index):
        tried.append(index.version)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(index_updater, "_LEAST", 1)
    monkeypatch.setattr(index_updater, "prepare_merge", fails)
    with open_store(tmp_path) as store:
        follower = Follower(store, tmp_path / "index")
        for number in range(1, 9):
            store.subscribe("cat")
            assert len(match_index(follower.refresh(), POSTS, 5)) == number
            follower.until_made()
    assert "No space" in str(follower.merging_failure)
    assert 1 < len(tried) < 5  # not at every change, and not for the last time


def test_a_merge_that_finds_the_index_damaged_says_so(tmp_path, monkeypatch):
    def fails(index):
        raise ValueError("no such word")

    monkeypatch.setattr(index_updater, "_LEAST", 0)
    monkeypatch.setattr(index_updater, "prepare_merge", fails)
    with open_store(tmp_path) as store:
        follower = Follower(store, tmp_path / "index")
        store.subscribe("cat")
        follower.refresh()
        follower.until_made()
        with pytest.raises(IndexDamaged, match="could not be merged: no such word"):
            follower.refresh()


def test_closing_does_not_wait_for_a_version_that_takes_long(tmp_path, monkeypatch):
    going_on = threading.Event()
    monkeypatch.setattr(index_updater, "_CLOSING_S", 0.01)
    with open_store(tmp_path) as store:
        follower = Follower(store, tmp_path / "index")
        try:
            assert follower.make(lambda index: going_on.wait(60) and None)
            follower.close()
            assert follower.is_learning
            assert not follower.has_learned
        finally:
            going_on.set()


def _no_matches() -> pa.Table:
    return pa.table({"subscription": pa.array([], pa.int64()), "post_row": pa.array([], pa.int64())})
