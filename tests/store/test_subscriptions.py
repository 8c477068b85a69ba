"""Subscriptions and the log of their changes."""

from __future__ import annotations

import time

import pytest

from tidings.errors import ChangeLogTruncated, UnknownSubscription
from tidings.store import NewSubscription, Retention, open_store


def test_a_subscription_is_read_as_it_was_added(store, clock):
    identity = store.subscriptions.add("storm -umbrella", "ann", (3.0, 51.0, 8.0, 54.5))
    (row,) = store.subscriptions.all()
    assert (row.id, row.query, row.owner, row.region) == (identity, "storm -umbrella", "ann", (3, 51, 8, 54.5))
    assert (row.created_at, row.removed_at) == (clock.now, None)


def test_polygons_keep_all_digits(store):
    polygons = (1.0, 1.0, 4.0, 0.1, 1 / 3, 5.0, 0.1, 5.0, 5.0, 0.1, 1 / 3)
    store.subscriptions.add_many([("a", "", polygons), ("b", "", (1.0, 2.0, 3.0, 4.0)), ("c",)])
    assert [row.region for row in store.subscriptions.all()] == [polygons, (1, 2, 3, 4), None]
    assert [row.region for row in store.subscriptions.net_changes(0).added] == [polygons, (1, 2, 3, 4), None]


def test_an_id_is_never_reused(store, clock):
    first = store.subscriptions.add("a")
    store.subscriptions.remove(first)
    clock.now += 10**7
    store.apply_retention()
    assert list(store.subscriptions.all(include_removed=True)) == []
    assert store.subscriptions.add("b") == first + 1


def test_removed_subscriptions_are_listed_only_on_request(store):
    first, second = store.subscriptions.add_many([("a", "ann"), ("b", "bob")])
    store.subscriptions.remove(first)
    assert [s.id for s in store.subscriptions.all()] == [second]
    assert [s.id for s in store.subscriptions.all(include_removed=True)] == [first, second]
    assert [s.id for s in store.subscriptions.all("ann", include_removed=True)] == [first]


def test_removing_a_removed_or_unknown_subscription_is_an_error(store):
    identity = store.subscriptions.add("a")
    store.subscriptions.remove(identity)
    with pytest.raises(UnknownSubscription, match=f"Subscription {identity} was removed"):
        store.subscriptions.remove(identity)
    for unknown in (99, 0, -1, 1 << 70):
        with pytest.raises(UnknownSubscription, match="does not exist"):
            store.subscriptions.remove(unknown)


def test_subscriptions_of_other_owners_look_unknown(store):
    identity = store.subscriptions.add("a", "ann")
    for method in (store.subscriptions.remove, lambda n, owner: store.matches.since(n, owner=owner)):
        with pytest.raises(UnknownSubscription, match="does not exist"):
            method(identity, owner="bob")
    store.subscriptions.remove(identity, owner="ann")


def test_the_change_log_lists_all_changes_in_order(store):
    start = store.subscriptions.position()
    first, second = store.subscriptions.add_many([NewSubscription("a"), NewSubscription("b")])
    store.subscriptions.remove(first)
    log = store.subscriptions.change_log(start)
    assert [(c.kind, c.subscription) for c in log] == [("add", first), ("add", second), ("remove", first)]
    assert [c.position for c in log] == sorted({c.position for c in log})
    assert log[-1].position == store.subscriptions.position()
    assert store.subscriptions.change_log(log[0].position, limit=1) == log[1:2]
    assert store.subscriptions.change_log(store.subscriptions.position()) == []


def test_reading_deleted_changes_is_an_error(store, clock):
    store.subscriptions.add("a")
    clock.now += 40 * 86_400
    store.apply_retention()
    last = store.subscriptions.position()
    store.subscriptions.add("b")
    with pytest.raises(ChangeLogTruncated, match="Read all subscriptions again"):
        store.subscriptions.change_log(0)
    assert [c.kind for c in store.subscriptions.change_log(last)] == ["add"]


def test_adding_100_000_subscriptions_takes_less_than_two_cpu_seconds(tmp_path):
    rows = [(f"storm OR rain{n}", "", (0.0, 1.0, 2.0, 3.0) if n % 5 == 0 else None) for n in range(100_000)]
    with open_store(tmp_path) as store:
        start = time.process_time()
        added = store.subscriptions.add_many(rows)
        assert time.process_time() - start < 2
        assert len(added) == 100_000
        assert sum(1 for _ in store.subscriptions.all()) == 100_000


def test_adding_no_subscriptions_changes_nothing(store):
    assert len(store.subscriptions.add_many([])) == 0
    assert store.subscriptions.position() == 0
    assert store.apply_retention(Retention()).matches == 0


def test_any_text_except_nul_is_stored_unchanged(store):
    identity = store.subscriptions.add('"crème" 日本 \U0001f327 \'; DROP TABLE post; -- "" \\ %s ?\n\t', "o,w\"n'er")
    store.subscriptions.add("a\x00b")
    rows = list(store.subscriptions.all())
    assert rows[0].id == identity
    assert (rows[0].query, rows[0].owner) == (
        '"crème" 日本 \U0001f327 \'; DROP TABLE post; -- "" \\ %s ?\n\t',
        "o,w\"n'er",
    )
    assert rows[1].query == "a\ufffdb"


def test_removing_many_removes_and_logs_only_those_that_are_live(store):
    ids = store.subscriptions.add_many([("rain",)] * 2_500)
    store.subscriptions.remove(ids[7])
    position = store.subscriptions.position()
    chosen = [*ids[5:2_400], 99_999]
    assert store.subscriptions.remove_many(chosen) == len(chosen) - 2
    assert store.subscriptions.ids("") == [*ids[:5], *ids[2_400:]]
    changes = store.subscriptions.change_log(position)
    assert [(c.kind, c.subscription) for c in changes] == [("remove", i) for i in chosen if i not in (ids[7], 99_999)]
    assert store.subscriptions.remove_many([]) == 0
