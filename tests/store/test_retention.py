"""A store that runs for weeks stays bounded."""

from __future__ import annotations

import pyarrow as pa
from tests.store.batches import ids, posts, run

from tidings.store import Retention, open_store


def test_of_too_many_matches_the_newest_stay(store):
    first, second = store.subscribe_many([("a",), ("b",)])
    run(store, 0, list(range(20)), [(first, row) for row in range(20)] + [(second, 3)])
    forgotten = store.retain(Retention(max_matches_per_subscription=5))
    assert (forgotten.matches, forgotten.posts) == (15, 14)
    assert len(ids(store, first)) == 5
    assert ids(store, second) == [3]
    assert store.sizes().posts == 6
    assert store.sizes().matches == 6


def test_what_is_old_goes(store, clock):
    subscription = store.subscribe("a")
    run(store, 0, [1, 2], [(subscription, 0), (subscription, 1)])
    clock.now += 100
    run(store, 1, [3], [(subscription, 0)])
    assert store.retain(Retention(max_age_s=50)).matches == 2
    assert ids(store, subscription) == [3]
    assert store.sizes().posts == 1
    clock.now += 100
    store.retain(Retention(max_age_s=50))
    assert store.sizes().posts == 0
    assert store.sizes().matches == 0


def test_every_match_ages_also_those_of_the_same_minute_when_the_stream_then_stops(store, clock):
    subscription = store.subscribe("a")
    for batch in range(3):
        run(store, batch, [batch], [(subscription, 0)])
        clock.now += 1
    clock.now += 100
    store.retain(Retention(max_age_s=50))
    assert ids(store, subscription) == []


def test_an_old_post_stays_while_a_later_match_needs_it(store, clock):
    first, second = store.subscribe_many([("a",), ("b",)])
    run(store, 0, [1, 2], [(first, 0), (first, 1)])
    clock.now += 100
    run(store, 1, [1], [(second, 0)])
    store.retain(Retention(max_age_s=50))
    assert ids(store, first) == []
    assert ids(store, second) == [1]
    store.unsubscribe(second)
    store.retain(Retention(max_age_s=50))
    assert store.sizes().posts == 0


def test_cursors_never_go_back(where):
    with open_store(where) as store:
        subscription = store.subscribe("a")
        run(store, 0, [1, 2, 3], [(subscription, row) for row in range(3)])
        last = store.matches(subscription)[-1].cursor
        store.retain(Retention(max_matches_per_subscription=0))
        assert ids(store, subscription) == []
    with open_store(where) as store:
        run(store, 1, [4], [(subscription, 0)])
        assert store.matches(subscription, since=last)[0].post_id == 4


def test_the_matches_of_a_removed_subscription_go(store):
    first, second = store.subscribe_many([("a",), ("b",)])
    run(store, 0, [1, 2], [(first, 0), (first, 1), (second, 1)])
    store.unsubscribe(first)
    assert store.retain().matches == 2
    assert store.sizes().posts == 1


def test_ledger_and_rejected_rows_are_bounded(store):
    for batch in range(8):
        run(store, batch, [batch], [], rejected=pa.table({"reason": [f"r{batch}"] * 2000}))
    assert store.sizes().rejected == 8_000  # a thousand a batch
    assert store.ledger()[-1].rejected == 2_000
    store.retain(Retention(max_batches=3, max_rejected=10))
    assert [line.batch for line in store.ledger()] == [5, 6, 7]
    assert [row.reason for row in store.rejected()] == ["r7"] * 10
    assert store.begin("s", 7, 9, 9).done


def test_disk_use_stops_growing(tmp_path, clock):
    with open_store(tmp_path, clock) as store:
        subscription = store.subscribe("a")
        used = []
        for batch in range(24):
            clock.now += 100
            table = posts(list(range(batch * 2000, batch * 2000 + 2000)), text=["x" * 500] * 2000)
            run(store, batch, table, [(subscription, row) for row in range(2000)])
            store.retain(Retention(max_age_s=350))
            store.database.rows("PRAGMA wal_checkpoint(TRUNCATE)")
            used.append(store.sizes().bytes)
        assert max(used[12:]) <= 1.2 * max(used[:12])
        store.retain(Retention(max_matches_per_subscription=0))
        store.database.rows("PRAGMA wal_checkpoint(TRUNCATE)")
        assert store.sizes().bytes < used[-1] / 2
