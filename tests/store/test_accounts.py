"""Owners, their tokens, their quotas, and the secret addresses of their subscriptions."""

from __future__ import annotations

import pytest
from tests.store.batches import run

from tidings.errors import InputError, QuotaExceeded, UnknownOwner, UnknownSubscription
from tidings.store.accounts import Quotas
from tidings.store.feed_urls import Newest
from tidings.store.feeds import Visited
from tidings.store.schema import ERA_BITS


def test_a_token_leads_to_its_owner_and_is_kept_nowhere(store):
    token = store.accounts.add("ann")
    assert store.accounts.owner_of(token) == "ann"
    assert [store.accounts.owner_of(wrong) for wrong in ("", token[:-1], token.upper(), "\ud800\0")] == [None] * 4
    rows = store.database.rows("SELECT hash, owner FROM token")
    assert len(rows) == 1
    assert token not in str(rows)


def test_tokens_are_revoked_together_and_new_ones_given(store):
    first, second = store.accounts.add("ann"), store.accounts.new_token("ann")
    other = store.accounts.add("bob")
    assert store.accounts.revoke("ann") == 2
    assert [store.accounts.owner_of(token) for token in (first, second, other)] == [None, None, "bob"]
    assert store.accounts.owner_of(store.accounts.new_token("ann")) == "ann"


@pytest.mark.parametrize("name", ["", "Ann", "a b", "-a", "a" * 65, "a/b", "ä", "a\n"])
def test_a_name_that_cannot_stand_in_an_address_is_refused(store, name):
    with pytest.raises(InputError, match="cannot be an owner"):
        store.accounts.add(name)


def test_the_unknown_owner_is_told_so(store):
    store.accounts.add("ann")
    with pytest.raises(InputError, match="already"):
        store.accounts.add("ann")
    accounts = store.accounts
    for attempt in (accounts.revoke, accounts.remove, accounts.new_token, accounts.account):
        with pytest.raises(UnknownOwner, match="no owner bob"):
            attempt("bob")


def test_only_the_first_start_makes_an_owner(store):
    assert store.accounts.owner_of(store.accounts.add_first("me")) == "me"
    assert store.accounts.add_first("me") is None


def test_a_removed_owner_leaves_nothing_behind(store):
    token = store.accounts.add("ann")
    mine, other = store.accounts.subscribe("ann", "storm"), store.subscribe("rain", "bob")
    address, start = store.addresses.of(mine), store.position()
    store.accounts.remove("ann")
    assert store.accounts.owner_of(token) is None
    assert store.addresses.find(address) is None
    assert [one.id for one in store.subscriptions()] == [other]
    assert [(change.kind, change.subscription) for change in store.changes(start)] == [("remove", mine)]
    store.accounts.add("ann")
    assert store.accounts.account("ann").subscriptions == 0


def test_no_more_subscriptions_than_the_quota(store):
    store.accounts.add("ann", Quotas(subscriptions=2))
    first = store.accounts.subscribe("ann", "a")
    store.accounts.subscribe("ann", "b")
    with pytest.raises(QuotaExceeded, match="You may have 2 subscriptions"):
        store.accounts.subscribe("ann", "c")
    store.unsubscribe(first)
    store.accounts.subscribe("ann", "c")
    assert [one.query for one in store.page("ann")] == ["b", "c"]


def test_posts_are_counted_by_the_day_of_utc(store, clock):
    clock.now = 1_800_000_000 // 86_400 * 86_400 + 86_000.0
    store.accounts.add("ann", Quotas(posts_a_day=10))
    store.accounts.publish("ann", 6)
    with pytest.raises(QuotaExceeded, match="4 are left") as refused:
        store.accounts.publish("ann", 5)
    assert refused.value.retry_after_s == 400
    store.accounts.publish("ann", 4)
    assert store.accounts.account("ann").posts_today == 10
    clock.now += 400
    store.accounts.publish("ann", 10)
    assert store.database.rows("SELECT count(*) FROM published") == [(1,)]


def test_an_address_stays_until_it_is_renewed_or_its_subscription_goes(store):
    identity = store.subscribe("storm", "ann")
    address = store.addresses.of(identity, "ann")
    assert store.addresses.of(identity) == address
    assert store.addresses.find(address)[:3] == (identity, "ann", "storm")
    renewed = store.addresses.renew(identity, "ann")
    assert store.addresses.find(address) is None
    assert store.addresses.find(renewed).subscription == identity
    store.unsubscribe(identity)
    assert store.addresses.find(renewed) is None


def test_nobody_elses_address_is_told_or_changed(store):
    identity = store.subscribe("storm", "ann")
    for attempt in (store.addresses.of, store.addresses.renew):
        with pytest.raises(UnknownSubscription, match="does not exist"):
            attempt(identity, "bob")
    assert [store.addresses.find(wrong) for wrong in ("", "ä", "a\0b")] == [None] * 3


def test_what_is_new_at_an_address_is_told_over_all_eras(store, clock):
    quiet, busy = store.subscribe("quiet", "ann"), store.subscribe("busy", "ann")
    found = {one: store.addresses.find(store.addresses.of(one)) for one in (quiet, busy)}
    assert store.addresses.newest(found[quiet]) == Newest(0, clock.now)
    clock.now += 100
    run(store, 0, [10, 11], [(quiet, 0), (busy, 1)])
    first = clock.now
    clock.now += 1_000
    store.database.run("UPDATE counter SET value = ? WHERE name = 'number'", 3 << ERA_BITS)
    run(store, 1, [12, 13], [(busy, 0), (busy, 1)])
    assert store.addresses.newest(found[quiet]) == Newest(1, first)
    assert store.addresses.newest(found[busy]) == Newest((3 << ERA_BITS) + 2, clock.now)
    assert [one.post_id for one in store.latest(busy, 2)] == [12, 13]
    assert [one.post_id for one in store.latest(busy)] == [11, 12, 13]
    assert (store.kept(busy), store.kept(quiet), store.kept(99)) == (3, 1, 0)


def test_addresses_go_with_their_subscriptions(store, clock):
    identity = store.subscribe("storm", "ann")
    store.addresses.of(identity)
    store.unsubscribe(identity)
    clock.now += 40 * 86_400
    store.retain()
    assert store.database.rows("SELECT count(*) FROM address") == [(0,)]


def test_a_feed_is_visited_soon_for_each_who_comes_and_not_again_for_who_follows_it(store, clock):
    feed = store.add_feed("https://e.org/rss", "ann")
    later = clock.now + 10_000
    store.visited([Visited(feed, "https://e.org/rss", "ok", clock.now, later)])
    store.add_feed("https://e.org/rss", "ann", "again")
    assert next(store.feeds()).due_at == later
    store.add_feed("https://e.org/rss", "bob")
    assert next(store.feeds()).due_at == clock.now
