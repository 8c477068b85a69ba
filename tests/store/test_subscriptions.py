"""Subscriptions and the log of their changes."""

from __future__ import annotations

import time

import pytest

from tidings.errors import ChangeLogTruncated, UnknownSubscription
from tidings.store import NewSubscription, Retention, open_store


def test_a_subscription_comes_back_as_it_was_given(store, clock):
    identity = store.subscribe("storm -umbrella", "ann", (3.0, 51.0, 8.0, 54.5))
    (found,) = store.subscriptions()
    assert (found.id, found.query, found.owner, found.region) == (identity, "storm -umbrella", "ann", (3, 51, 8, 54.5))
    assert (found.created_at, found.removed_at) == (clock.now, None)


def test_polygons_come_back_to_the_last_digit(store):
    polygons = (1.0, 1.0, 4.0, 0.1, 1 / 3, 5.0, 0.1, 5.0, 5.0, 0.1, 1 / 3)
    store.subscribe_many([("a", "", polygons), ("b", "", (1.0, 2.0, 3.0, 4.0)), ("c",)])
    assert [one.region for one in store.subscriptions()] == [polygons, (1, 2, 3, 4), None]
    assert [one.region for one in store.changed(0).added] == [polygons, (1, 2, 3, 4), None]


def test_an_id_is_never_given_again(store, clock):
    first = store.subscribe("a")
    store.unsubscribe(first)
    clock.now += 10**7
    store.retain()
    assert list(store.subscriptions(include_removed=True)) == []
    assert store.subscribe("b") == first + 1


def test_what_was_removed_is_listed_only_when_asked_for(store):
    first, second = store.subscribe_many([("a", "ann"), ("b", "bob")])
    store.unsubscribe(first)
    assert [s.id for s in store.subscriptions()] == [second]
    assert [s.id for s in store.subscriptions(include_removed=True)] == [first, second]
    assert [s.id for s in store.subscriptions("ann", include_removed=True)] == [first]


def test_removing_twice_or_the_unknown_is_refused_with_the_reason(store):
    identity = store.subscribe("a")
    store.unsubscribe(identity)
    with pytest.raises(UnknownSubscription, match=f"Subscription {identity} was removed"):
        store.unsubscribe(identity)
    for unknown in (99, 0, -1, 1 << 70):
        with pytest.raises(UnknownSubscription, match="does not exist"):
            store.unsubscribe(unknown)


def test_somebody_elses_subscription_looks_unknown(store):
    identity = store.subscribe("a", "ann")
    for attempt in (store.unsubscribe, lambda n, owner: store.matches(n, owner=owner)):
        with pytest.raises(UnknownSubscription, match="does not exist"):
            attempt(identity, owner="bob")
    store.unsubscribe(identity, owner="ann")


def test_the_change_log_tells_everything_in_order(store):
    start = store.position()
    first, second = store.subscribe_many([NewSubscription("a"), NewSubscription("b")])
    store.unsubscribe(first)
    told = store.changes(start)
    assert [(c.kind, c.subscription) for c in told] == [("add", first), ("add", second), ("remove", first)]
    assert [c.position for c in told] == sorted({c.position for c in told})
    assert told[-1].position == store.position()
    assert store.changes(told[0].position, limit=1) == told[1:2]
    assert store.changes(store.position()) == []


def test_a_follower_behind_the_forgotten_log_is_told_so(store, clock):
    store.subscribe("a")
    clock.now += 40 * 86_400
    store.retain()
    last = store.position()
    store.subscribe("b")
    with pytest.raises(ChangeLogTruncated, match="read all subscriptions anew"):
        store.changes(0)
    assert [c.kind for c in store.changes(last)] == ["add"]


def test_a_hundred_thousand_subscriptions_take_less_than_two_seconds(tmp_path):
    rows = [(f"storm OR rain{n}", "", (0.0, 1.0, 2.0, 3.0) if n % 5 == 0 else None) for n in range(100_000)]
    with open_store(tmp_path) as store:
        start = time.perf_counter()
        given = store.QQ_subscribe_many_QQ(rows)
        assert time.perf_counter() - start < 2
        assert len(given) == 100_000
        assert sum(1 for _ in store.QQ_subscriptions_QQ()) == 100_000


def test_no_subscriptions_are_no_mistake(store):
    assert len(store.subscribe_many([])) == 0
    assert store.position() == 0
    assert store.retain(Retention()).matches == 0


def test_any_text_is_kept_but_nul(store):
    identity = store.subscribe('"crème" 日本 \U0001f327 \'; DROP TABLE post; -- "" \\ %s ?\n\t', "o,w\"n'er")
    store.subscribe("a\x00b")
    found = list(store.subscriptions())
    assert found[0].id == identity
    assert (found[0].query, found[0].owner) == (
        '"crème" 日本 \U0001f327 \'; DROP TABLE post; -- "" \\ %s ?\n\t',
        "o,w\"n'er",
    )
    assert found[1].query == "a\ufffdb"
