"""Owners, tokens, quotas and feed URLs."""

from __future__ import annotations

import pytest
from tests.store.batches import run_batch

from tidings.errors import InputError, QuotaExceeded, UnknownOwner, UnknownSubscription
from tidings.query.cost import CHARACTERS_PER_UNIT, query_cost
from tidings.store import open_store, schema
from tidings.store.accounts import Quotas
from tidings.store.feed_urls import NewestMatch
from tidings.store.feeds import VisitRecord
from tidings.store.schema import ERA_BITS
from tidings.testing.hostile_queries import hostile_queries


def test_a_token_identifies_its_owner_and_is_not_stored(store):
    token = store.accounts.add("ann")
    assert store.accounts.owner_of(token) == "ann"
    assert [store.accounts.owner_of(wrong) for wrong in ("", token[:-1], token.upper(), "\ud800\0")] == [None] * 4
    rows = store.database.fetch("SELECT hash, owner FROM token")
    assert len(rows) == 1
    assert token not in str(rows)


def test_revoking_ends_all_tokens_of_an_owner(store):
    first, second = store.accounts.add("ann"), store.accounts.add_token("ann")
    other = store.accounts.add("bob")
    assert store.accounts.revoke_tokens("ann") == 2
    assert [store.accounts.owner_of(token) for token in (first, second, other)] == [None, None, "bob"]
    assert store.accounts.owner_of(store.accounts.add_token("ann")) == "ann"


@pytest.mark.parametrize(
    "name",
    [
        "",
        "Ann",
        "a b",
        "-a",
        "a" * 65,
        "a/b",
        "ä",
        "a\n",
        "me.",
        "me-",
        "a..b",
        ".",
        "\u0430nn",
        "an\u200bn",
        "\uff41nn",
    ],
)
def test_an_invalid_owner_name_is_rejected(store, name):
    with pytest.raises(InputError, match="not a valid name"):
        store.accounts.add(name)


@pytest.mark.parametrize(
    ("name", "other"), [("ann-b", "ann.b"), ("tom1", "toml"), ("bob0", "bobo"), ("barn", "bam"), ("vvim", "wim")]
)
def test_a_name_that_looks_like_that_of_another_owner_is_rejected(store, name, other):
    store.accounts.add(name)
    with pytest.raises(InputError, match=f"Owner {other}: looks like the owner {name}"):
        store.accounts.add(other)


def test_an_owner_with_a_name_that_is_not_valid_any_more_keeps_working(store):
    store.accounts.add("me")
    store.database.execute("UPDATE owner SET name = 'me.' WHERE name = 'me'")
    token = store.accounts.add_token("me.")
    assert store.accounts.owner_of(token) == "me."
    with pytest.raises(InputError, match=r"Owner me: looks like the owner me\."):
        store.accounts.add("me")


def test_an_unknown_owner_raises_an_error(store):
    store.accounts.add("ann")
    with pytest.raises(InputError, match="already"):
        store.accounts.add("ann")
    accounts = store.accounts
    for method in (accounts.revoke_tokens, accounts.remove, accounts.add_token, accounts.get):
        with pytest.raises(UnknownOwner, match="Owner bob does not exist"):
            method("bob")


def test_only_the_first_start_adds_an_owner(store):
    assert store.accounts.owner_of(store.accounts.add_first("me")) == "me"
    assert store.accounts.add_first("me") is None


def test_removing_an_owner_removes_tokens_and_subscriptions(store):
    token = store.accounts.add("ann")
    mine, other = store.accounts.subscribe("ann", "storm"), store.subscriptions.add("rain", "bob")
    address, start = store.feed_urls.get_or_create(mine), store.subscriptions.position()
    store.accounts.remove("ann")
    assert store.accounts.owner_of(token) is None
    assert store.feed_urls.find(address) is None
    assert [subscription.id for subscription in store.subscriptions.all()] == [other]
    assert [(change.kind, change.subscription) for change in store.subscriptions.change_log(start)] == [
        ("remove", mine)
    ]
    store.accounts.add("ann")
    assert store.accounts.get("ann").subscriptions == 0


def test_the_subscription_quota_is_enforced(store):
    store.accounts.add("ann", Quotas(subscriptions=2))
    first = store.accounts.subscribe("ann", "a")
    store.accounts.subscribe("ann", "b")
    with pytest.raises(QuotaExceeded, match=r"Subscription quota reached \(2\)"):
        store.accounts.subscribe("ann", "c")
    store.subscriptions.remove(first)
    store.accounts.subscribe("ann", "c")
    assert [subscription.query for subscription in store.subscriptions.page("ann")] == ["b", "c"]


def test_the_cost_quota_is_enforced(store):
    store.accounts.add("ann", Quotas(query_cost=10))
    first = store.accounts.subscribe("ann", "storm OR rain", cost=7)
    with pytest.raises(QuotaExceeded, match=r"this query costs 4, and 7 of 10 are used\. Use fewer words"):
        store.accounts.subscribe("ann", "wind OR snow", cost=4)
    store.accounts.subscribe("ann", "wind", cost=3)
    assert store.accounts.get("ann").query_cost == 10
    store.subscriptions.remove(first)
    assert store.accounts.get("ann").query_cost == 3
    store.accounts.set_quotas("ann", Quotas(query_cost=2))
    with pytest.raises(QuotaExceeded, match="3 of 2 are used"):
        store.accounts.subscribe("ann", "snow")


def test_queries_of_older_stores_cost_the_minimum_of_their_length_after_an_upgrade(location, monkeypatch):
    before = schema.MIGRATIONS[: schema.MIGRATIONS.index(schema._PRICES)]
    monkeypatch.setattr(schema.migrate, "__defaults__", (before,))
    hostile, short = hostile_queries(60), "x" * (2 * CHARACTERS_PER_UNIT - 1)
    with open_store(location) as store:
        store.accounts.add("ann", Quotas(query_cost=20_000))
        store.subscriptions.add_many([(query, "ann", None, 1) for query in (*hostile, short)])
        store.subscriptions.add("storm OR rain", "bob", cost=7)
    monkeypatch.undo()
    with open_store(location) as store:
        costs = [row.cost for row in store.subscriptions.page("ann", 0, 100)]
        assert costs == [len(query) // CHARACTERS_PER_UNIT for query in hostile] + [1]
        assert all(cost <= query_cost(query) for cost, query in zip(costs, hostile, strict=False))
        assert [row.cost for row in store.subscriptions.page("bob", 0, 100)] == [7]
        assert store.accounts.get("ann").query_cost > 10_000


def test_changes_have_the_owner_and_the_cost_of_their_subscription(store):
    first = store.subscriptions.add("storm", "ann", cost=7)
    second = store.subscriptions.add("rain")
    store.subscriptions.remove(first)
    changes = store.subscriptions.priced_changes(0, 10)
    assert [tuple(change)[1:] for change in changes] == [
        ("add", first, "ann", 7),
        ("add", second, "", 1),
        ("remove", first, "ann", 7),
    ]
    assert store.subscriptions.priced_changes(1, 1) == changes[1:2]
    assert [row.id for row in store.subscriptions.get_many([second, first, 99])] == [second]


def test_the_post_quota_counts_days_in_utc(store, clock):
    clock.now = 1_800_000_000 // 86_400 * 86_400 + 86_000.0
    store.accounts.add("ann", Quotas(posts_per_day=10))
    store.accounts.count_posts("ann", 6)
    with pytest.raises(QuotaExceeded, match="4 left") as rejected:
        store.accounts.count_posts("ann", 5)
    assert rejected.value.retry_after_s == 400
    store.accounts.count_posts("ann", 4)
    assert store.accounts.get("ann").posts_today == 10
    clock.now += 400
    store.accounts.count_posts("ann", 10)
    assert store.database.fetch("SELECT count(*) FROM published") == [(1,)]


def test_a_derived_key_belongs_to_its_store_and_purpose(store, location):
    key = store.accounts.derive_key("a")
    assert (len(key), key) == (64, store.accounts.derive_key("a"))
    assert key != store.accounts.derive_key("b")
    with open_store(location) as again:
        assert again.accounts.derive_key("a") == key


def test_a_feed_url_works_until_it_is_renewed_or_its_subscription_removed(store):
    identity = store.subscriptions.add("storm", "ann")
    address = store.feed_urls.get_or_create(identity, "ann")
    assert store.feed_urls.get_or_create(identity) == address
    assert store.feed_urls.find(address)[:3] == (identity, "ann", "storm")
    renewed = store.feed_urls.renew(identity, "ann")
    assert store.feed_urls.find(address) is None
    assert store.feed_urls.find(renewed).subscription == identity
    store.subscriptions.remove(identity)
    assert store.feed_urls.find(renewed) is None


def test_feed_urls_of_other_owners_cannot_be_read_or_renewed(store):
    identity = store.subscriptions.add("storm", "ann")
    for method in (store.feed_urls.get_or_create, store.feed_urls.renew):
        with pytest.raises(UnknownSubscription, match="does not exist"):
            method(identity, "bob")
    assert [store.feed_urls.find(wrong) for wrong in ("", "ä", "a\0b")] == [None] * 3


def test_the_newest_match_is_found_in_any_era(store, clock):
    quiet, busy = store.subscriptions.add("quiet", "ann"), store.subscriptions.add("busy", "ann")
    targets = {identity: store.feed_urls.find(store.feed_urls.get_or_create(identity)) for identity in (quiet, busy)}
    assert store.feed_urls.newest_match(targets[quiet]) == NewestMatch(0, clock.now)
    clock.now += 100
    run_batch(store, 0, [10, 11], [(quiet, 0), (busy, 1)])
    first = clock.now
    clock.now += 1_000
    store.database.execute("UPDATE counter SET value = ? WHERE name = 'number'", 3 << ERA_BITS)
    run_batch(store, 1, [12, 13], [(busy, 0), (busy, 1)])
    assert store.feed_urls.newest_match(targets[quiet]) == NewestMatch(1, first)
    assert store.feed_urls.newest_match(targets[busy]) == NewestMatch((3 << ERA_BITS) + 2, clock.now)
    assert [match.post_id for match in store.matches.latest(busy, 2)] == [12, 13]
    assert [match.post_id for match in store.matches.latest(busy)] == [11, 12, 13]
    assert (store.matches.count(busy), store.matches.count(quiet), store.matches.count(99)) == (3, 1, 0)


def test_retention_deletes_feed_urls_of_removed_subscriptions(store, clock):
    identity = store.subscriptions.add("storm", "ann")
    store.feed_urls.get_or_create(identity)
    store.subscriptions.remove(identity)
    clock.now += 40 * 86_400
    store.apply_retention()
    assert store.database.fetch("SELECT count(*) FROM address") == [(0,)]


def test_a_new_follower_makes_a_feed_due_and_an_existing_one_does_not(store, clock):
    feed = store.feeds.add("https://e.org/rss", "ann")
    later = clock.now + 10_000
    store.feeds.record_visits([VisitRecord(feed, "https://e.org/rss", "ok", clock.now, later)])
    store.feeds.add("https://e.org/rss", "ann", "again")
    assert next(store.feeds.all()).due_at == later
    store.feeds.add("https://e.org/rss", "bob")
    assert next(store.feeds.all()).due_at == clock.now
