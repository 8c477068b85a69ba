"""Retention keeps a store that runs for weeks within its limits."""

from __future__ import annotations

import pyarrow as pa
from tests.store.batches import posts, read_ids, run_batch

from tidings.store import Retention, open_store


def test_only_the_newest_matches_per_subscription_are_kept(store):
    first, second = store.subscriptions.add_many([("a",), ("b",)])
    run_batch(store, 0, list(range(20)), [(first, row) for row in range(20)] + [(second, 3)])
    result = store.apply_retention(Retention(max_matches_per_subscription=5))
    assert (result.matches, result.posts) == (15, 14)
    assert len(read_ids(store, first)) == 5
    assert read_ids(store, second) == [3]
    assert store.sizes().posts == 6
    assert store.sizes().matches == 6


def test_old_matches_and_posts_are_deleted(store, clock):
    subscription = store.subscriptions.add("a")
    run_batch(store, 0, [1, 2], [(subscription, 0), (subscription, 1)])
    clock.now += 100
    run_batch(store, 1, [3], [(subscription, 0)])
    assert store.apply_retention(Retention(max_age_s=50)).matches == 2
    assert read_ids(store, subscription) == [3]
    assert store.sizes().posts == 1
    clock.now += 100
    store.apply_retention(Retention(max_age_s=50))
    assert store.sizes().posts == 0
    assert store.sizes().matches == 0


def test_matches_of_the_same_minute_age_also_after_the_stream_stops(store, clock):
    subscription = store.subscriptions.add("a")
    for batch in range(3):
        run_batch(store, batch, [batch], [(subscription, 0)])
        clock.now += 1
    clock.now += 100
    store.apply_retention(Retention(max_age_s=50))
    assert read_ids(store, subscription) == []


def test_an_old_post_is_kept_while_a_late_match_refers_to_it(store, clock):
    first, second = store.subscriptions.add_many([("a",), ("b",)])
    run_batch(store, 0, [1, 2], [(first, 0), (first, 1)])
    clock.now += 100
    run_batch(store, 1, [1], [(second, 0)])
    store.apply_retention(Retention(max_age_s=50))
    assert read_ids(store, first) == []
    assert read_ids(store, second) == [1]
    store.subscriptions.remove(second)
    store.apply_retention(Retention(max_age_s=50))
    assert store.sizes().posts == 0


def test_cursors_grow_after_retention(location):
    with open_store(location) as store:
        subscription = store.subscriptions.add("a")
        run_batch(store, 0, [1, 2, 3], [(subscription, row) for row in range(3)])
        last = store.matches.since(subscription)[-1].cursor
        store.apply_retention(Retention(max_matches_per_subscription=0))
        assert read_ids(store, subscription) == []
    with open_store(location) as store:
        run_batch(store, 1, [4], [(subscription, 0)])
        assert store.matches.since(subscription, cursor=last)[0].post_id == 4


def test_matches_of_a_removed_subscription_are_deleted(store):
    first, second = store.subscriptions.add_many([("a",), ("b",)])
    run_batch(store, 0, [1, 2], [(first, 0), (first, 1), (second, 1)])
    store.subscriptions.remove(first)
    assert store.apply_retention().matches == 2
    assert store.sizes().posts == 1


def test_ledger_and_rejected_rows_are_limited(store):
    for batch in range(8):
        run_batch(store, batch, [batch], [], rejected=pa.table({"reason": [f"r{batch}"] * 2000}))
    assert store.sizes().rejected == 8_000  # a thousand per batch
    assert store.batches.recent()[-1].rejected == 2_000
    store.apply_retention(Retention(max_batches=3, max_rejected=10))
    assert [line.batch for line in store.batches.recent()] == [5, 6, 7]
    assert [row.reason for row in store.batches.rejected_rows()] == ["r7"] * 10
    assert store.batches.begin("s", 7, 9, 9).done


def test_disk_use_stops_growing(tmp_path, clock):
    with open_store(tmp_path, clock) as store:
        subscription = store.subscriptions.add("a")
        used = []
        for batch in range(24):
            clock.now += 100
            table = posts(list(range(batch * 2000, batch * 2000 + 2000)), text=["x" * 500] * 2000)
            run_batch(store, batch, table, [(subscription, row) for row in range(2000)])
            store.apply_retention(Retention(max_age_s=350))
            store.database.fetch("PRAGMA wal_checkpoint(TRUNCATE)")
            used.append(store.sizes().bytes)
        assert max(used[12:]) <= 1.2 * max(used[:12])
        store.apply_retention(Retention(max_matches_per_subscription=0))
        store.database.fetch("PRAGMA wal_checkpoint(TRUNCATE)")
        assert store.sizes().bytes < used[-1] / 2
