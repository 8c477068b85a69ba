"""Totals of shed work are counted once per batch; requests for a new plan; the owners of subscriptions."""

from __future__ import annotations

import pytest
from tests.store.batches import matches, posts

from tidings.errors import StoreError
from tidings.store import BatchChunk, ShedCounts, open_store
from tidings.store.schema import MIGRATIONS

EMPTY_CHUNK = BatchChunk(posts([]), matches([]), posts([]).rename_columns(["source_row", "reason"]))


def commit_shed(store, batch: int, counts: ShedCounts, **more) -> None:
    store.batches.begin("s", batch, 1, 1)
    store.batches.commit_chunks("s", batch, [EMPTY_CHUNK], shed=counts, **more)


def test_shed_counts_add_up_over_batches(store):
    commit_shed(store, 0, ShedCounts({0: 5, 3: 2, 4: 0}, {"ann": 7, "": 1}))
    commit_shed(store, 1, ShedCounts({3: 10}, {"ann": 1, "bob": 2}))
    assert store.shed_totals.read() == ShedCounts({3: 12, 0: 5}, {"ann": 8, "bob": 2, "": 1})
    assert store.shed_totals.read(max_owners=1).owners == {"ann": 8}


def test_a_replayed_or_failed_batch_is_not_counted(store):
    commit_shed(store, 0, ShedCounts({0: 5}, {"ann": 5}))
    commit_shed(store, 0, ShedCounts({0: 5}, {"ann": 5}))

    def crash() -> None:
        raise StoreError("killed")

    with pytest.raises(StoreError):
        commit_shed(store, 1, ShedCounts({0: 9}, {"ann": 9}), before_commit=crash)
    assert store.shed_totals.read() == ShedCounts({0: 5}, {"ann": 5})


def test_a_replayed_batch_keeps_its_shedding_decision(store):
    assert store.batches.begin("s", 0, 1, 1, shed="level 3").shed == "level 3"
    replayed = store.batches.begin("s", 0, 2, 2, shed="level 5")
    assert (replayed.shed, replayed.replay) == ("level 3", True)
    assert store.batches.recent()[0].shed == "level 3"


def test_a_plan_request_is_pending_until_it_is_complete(store):
    assert store.plan_refresh.pending_requests() == 0
    store.plan_refresh.request()
    store.plan_refresh.request()
    requested = store.plan_refresh.pending_requests()
    store.plan_refresh.request()
    store.plan_refresh.complete(requested)
    assert store.plan_refresh.pending_requests() > requested, "a request during a refresh is not lost"
    store.plan_refresh.complete(store.plan_refresh.pending_requests())
    assert store.plan_refresh.pending_requests() == 0


def test_owners_are_listed_above_an_id_also_of_removed_subscriptions(store):
    first, second = store.subscriptions.add("a", "ann"), store.subscriptions.add("b", "bob")
    store.subscriptions.remove(second)
    assert store.subscriptions.owners() == [(first, "ann"), (second, "bob")]
    assert store.subscriptions.owners(first) == [(second, "bob")]


def test_a_store_of_the_first_version_is_migrated(tmp_path, monkeypatch):
    from tidings.store import schema

    monkeypatch.setattr(schema.migrate, "__defaults__", (MIGRATIONS[:1],))
    with open_store(tmp_path) as store:
        store.database.execute(
            "INSERT INTO batch (stream, batch, index_version, plan_version, state, started_at, posts, matches, "
            "rejected, figures) VALUES ('s', 0, 1, 1, 'begun', 0, 0, 0, 0, '{}')"
        )
    monkeypatch.undo()
    with open_store(tmp_path) as store:
        assert store.batches.begin("s", 0, 2, 2).shed == ""
        assert store.shed_totals.read() == ShedCounts()
