"""A batch waits for a bounded amount of compiling; owners take turns, and nothing is lost or found too late."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.config import MAX_POSTS_PER_BATCH
from tidings.index.builder import prepare_merge
from tidings.index.manifest import PlanRecord, load_manifest
from tidings.matching.brute_force import RawPost
from tidings.plan.load_model import POSTS_PER_UPDATE
from tidings.store import open_store, subscriptions
from tidings.stream import index_updater, waiting_changes
from tidings.stream.bulk_build import BulkBuild, BulkBuildFailed
from tidings.stream.index_updater import IndexUpdater
from tidings.stream.waiting_changes import WaitingChanges
from tidings.testing.pipeline import match_index

POSTS = [RawPost("cats and dogs")]
EVENTS = ("none", "restart", "merge")
both_plans = pytest.mark.parametrize("plan", [None, PlanRecord("hash", 3, 7)], ids=["replicated", "partitioned"])


@pytest.fixture
def small_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a batch wait for additions of 3 units."""
    monkeypatch.setattr(index_updater, "BATCH_UNITS", 3)


def found(updater: IndexUpdater) -> list[int]:
    return [subscription for subscription, _ in match_index(updater.index, POSTS, 5)]


def refresh_until_complete(updater: IndexUpdater) -> None:
    for _ in range(20):
        updater.refresh()
        if not updater.waiting_count:
            return
        updater.wait_for_build(60)
    raise AssertionError(f"{updater.waiting_count} subscriptions still wait: {updater.bulk_error}")


def test_owners_take_turns(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        imported = store.subscriptions.add_many([("cat", "ann")] * 50)
        single = store.subscriptions.add("dog", "bob")
        waiting = WaitingChanges(0)
        assert waiting.read(store.subscriptions) == []
        assert waiting.take(4) == [single, *imported[:3]]
        assert waiting.included_position() == 3, "the fourth of ann's changes waits"


def test_what_is_too_expensive_for_a_batch_does_not_hold_up_what_follows(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        large = store.subscriptions.add("cat OR dog", "ann", cost=100)
        small = store.subscriptions.add("cat", "ann")
        waiting = WaitingChanges(0)
        waiting.read(store.subscriptions)
        assert waiting.take(10) == [small]
        assert waiting.take(10) == []
        assert waiting.take(10, at_least_one=True) == [large]


def test_few_of_many_that_are_too_expensive_are_examined_per_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting_changes, "MAX_EXAMINED", 4)
    with open_store(tmp_path) as store:
        store.subscriptions.add_many([("cat", "ann", None, 100)] * 5)
        store.subscriptions.add("cat", "ann")
        single = store.subscriptions.add("dog", "bob")
        waiting = WaitingChanges(0)
        waiting.read(store.subscriptions)
        assert waiting.take(10) == [single], "another owner is not behind them"
        assert waiting.take(10) == []


def test_the_log_is_read_in_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting_changes, "LOG_PAGE", 4)
    with open_store(tmp_path) as store:
        store.subscriptions.add_many([("cat", "ann")] * 6)
        waiting = WaitingChanges(0)
        waiting.read(store.subscriptions)
        assert (len(waiting), waiting.is_up_to_date) == (4, False)
        waiting.read(store.subscriptions)
        assert (len(waiting), waiting.is_up_to_date) == (6, True)


@both_plans
def test_a_single_subscription_is_in_the_next_batch_while_another_owner_imports_many(
    tmp_path: Path, plan: PlanRecord | None, small_budget: None
) -> None:
    with open_store(tmp_path) as store:
        updater = IndexUpdater(store, tmp_path / "index", plan)
        updater.refresh()
        imported = store.subscriptions.add_many([("cat", "ann")] * 40)
        single = store.subscriptions.add("dog", "bob")
        updater.refresh()
        assert single in found(updater)
        assert len(found(updater)) == 3
        assert updater.waiting_count == 38
        removed = imported[20]
        store.subscriptions.remove(removed)  # while it is being compiled
        late = store.subscriptions.add("dogs", "bob")
        updater.refresh()
        assert late in found(updater)
        refresh_until_complete(updater)
        assert found(updater) == sorted({*imported, single, late} - {removed})
        assert updater.index.manifest.log_position == store.subscriptions.position()
        assert updater.index.manifest.subscriptions == 41


@both_plans
def test_a_restart_while_subscriptions_wait_loses_none(
    tmp_path: Path, plan: PlanRecord | None, small_budget: None
) -> None:
    with open_store(tmp_path) as store:
        updater = IndexUpdater(store, tmp_path / "index", plan)
        updater.refresh()
        imported = store.subscriptions.add_many([("cat", "ann")] * 20)
        single = store.subscriptions.add("dog", "bob")
        live = set(found_after_refresh(updater))
        updater.close()
        assert load_manifest(tmp_path / "index", updater.index.version).log_position < imported[-1]
        store.subscriptions.remove(imported[7])
        again = IndexUpdater(store, tmp_path / "index", plan)
        after = set(found_after_refresh(again))
        assert live - {imported[7]} <= after, "a restart must not take a subscription away"
        assert after == {*imported, single} - {imported[7]}


def found_after_refresh(updater: IndexUpdater) -> list[int]:
    updater.refresh()
    return found(updater)


def test_a_failed_process_is_replaced_by_small_steps(
    tmp_path: Path, small_budget: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with open_store(tmp_path) as store:
        updater = IndexUpdater(store, tmp_path / "index")
        updater.refresh()
        large = store.subscriptions.add("cat OR dog OR fish OR bird", "ann", cost=4)
        imported = store.subscriptions.add_many([("cat", "ann")] * 5)
        updater.refresh()
        updater.wait_for_build(60)
        for _ in range(4):
            updater.refresh()
        assert isinstance(updater.bulk_error, BulkBuildFailed)
        assert found(updater) == [large, *imported]
        assert updater.waiting_count == 0


def test_a_process_that_ends_before_it_reads_is_reported_as_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    communicate = BulkBuild._communicate

    def communicate_too_late(build: BulkBuild, process: subprocess.Popen[str]) -> str:
        process.wait()
        return communicate(build, process)

    monkeypatch.setattr(BulkBuild, "_communicate", communicate_too_late)
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with open_store(tmp_path) as store:
        updater = IndexUpdater(store, tmp_path / "index")
        updater.refresh()
        with pytest.raises(BulkBuildFailed):
            BulkBuild(store, updater.index, [1]).run()


def test_a_truncated_log_while_subscriptions_wait_rebuilds_the_index(tmp_path: Path, small_budget: None) -> None:
    with open_store(tmp_path) as store:
        updater = IndexUpdater(store, tmp_path / "index")
        updater.refresh()
        imported = store.subscriptions.add_many([("cat", "ann")] * 10)
        updater.refresh()
        late = store.subscriptions.add("dog")
        store.database.execute("UPDATE counter SET value = ? WHERE name = 'forgotten'", late)
        assert found_after_refresh(updater) == [*imported, late]
        updater.wait_for_build(60)
        assert found_after_refresh(updater) == [*imported, late], "the result of the old build is not used"
        assert updater.waiting_count == 0


def test_the_process_ends_with_the_one_that_started_it() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "tidings.stream.bulk_build"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(60) != 0


@both_plans
@settings(max_examples=4, deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.integers(0, 9), st.integers(0, 2), st.integers(1, 40), st.sampled_from(EVENTS)), max_size=6
    ),
)
def test_every_interleaving_ends_with_all_subscriptions(
    tmp_path_factory: pytest.TempPathFactory, plan: PlanRecord | None, steps: list[tuple[int, int, int, str]]
) -> None:
    folder = tmp_path_factory.mktemp("state")
    with pytest.MonkeyPatch.context() as patch, open_store(folder) as store:
        patch.setattr(index_updater, "BATCH_UNITS", 3)
        patch.setattr(index_updater, "_MERGE_MIN_CHANGES", 6)
        patch.setattr(subscriptions, "_PAGE_IDS", 4)
        updater, live, removed = IndexUpdater(store, folder / "index", plan), set[int](), set[int]()
        for added, owner, target, event in steps:
            live.update(store.subscriptions.add_many([("cat", f"owner{owner}", None, 1 + target % 5)] * added))
            if target in live:
                store.subscriptions.remove(target)
                live.remove(target)
                removed.add(target)
            if event == "restart":
                updater.close()
                updater = IndexUpdater(store, folder / "index", plan)
            elif event == "merge":
                updater.start_build(prepare_merge)
            before = set(found(updater)) - removed
            updater.refresh()
            now = found(updater)
            assert before <= set(now) <= live, "a live subscription was lost, or a removed one found"
            assert len(now) == len(set(now)), "a subscription was found twice"
        refresh_until_complete(updater)
        assert found(updater) == sorted(live)
        updater.close()


def test_updates_at_the_rate_of_ps2stream_are_read_in_the_batch_after_them(tmp_path: Path) -> None:
    """One update per five posts, half of them additions, with the largest batches."""
    with open_store(tmp_path) as store:
        waiting, half = WaitingChanges(0), MAX_POSTS_PER_BATCH // POSTS_PER_UPDATE // 2
        for _ in range(2):
            added = store.subscriptions.add_many([("cat",)] * half)
            store.subscriptions.remove_many(added)
            assert len(waiting.read(store.subscriptions)) == half
            assert waiting.is_up_to_date
