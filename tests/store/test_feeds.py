"""Feeds in the store: followers, visits of the crawler, and the outbox."""

from __future__ import annotations

import json

import pytest

from tidings.errors import InputError, StoreBusy, UnknownFeed
from tidings.store import VisitRecord, open_store, schema

URL, OTHER = "https://example.com/feed", "https://example.org/feed"


def visit(feed, url=URL, **more):
    fields = {"state": "ok", "checked_at": 1.0, "due_at": 2.0, **more}
    return VisitRecord(feed, url, **fields)


def test_a_feed_is_stored_once_for_all_followers(store, clock):
    first = store.feeds.add(URL, "ann", "Ann's")
    assert store.feeds.add("HTTPS://Example.com:443/feed#top", "bob") == first
    assert store.feeds.add(URL, "ann") == first
    (anns,), (bobs,), (feed,) = (list(store.feeds.all(who)) for who in ("ann", "bob", None))
    assert (anns.title, bobs.title, feed.url, feed.state, feed.due_at) == ("Ann's", "", URL, "new", clock.now)
    assert list(store.feeds.all("eve")) == []


def test_a_feed_is_deleted_with_its_last_follower(store):
    feed = store.feeds.add(URL, "ann")
    store.feeds.add(URL, "bob")
    store.feeds.record_visits([visit(feed, known="[1]")])
    store.feeds.remove(feed, "ann")
    assert [feed.id for feed in store.feeds.all()] == [feed]
    assert list(store.feeds.all("ann")) == []
    store.feeds.remove(feed, "bob")
    assert list(store.feeds.all()) == []
    assert store.feeds.known_articles([feed]) == {}
    assert store.feeds.add(URL) == feed + 1


def test_the_title_of_a_feed_is_sanitized(store):
    store.feeds.add(URL, "ann", "The \u202ebl\u200bog\x00\U000e0041")
    assert [feed.title for feed in store.feeds.all("ann")] == ["The blog "]


def test_only_a_followed_feed_can_be_removed(store):
    feed = store.feeds.add(URL, "ann")
    for number, owner in ((feed, "bob"), (feed + 1, None), (-1, None), (1 << 70, "ann")):
        with pytest.raises(UnknownFeed, match=f"Feed {number} does not exist"):
            store.feeds.remove(number, owner)
    with pytest.raises(InputError, match="only http and https addresses"):
        store.feeds.add("gopher://example.com/")


def test_the_longest_waiting_feeds_are_due_first(store, clock):
    feeds = [store.feeds.add(f"https://h{n}.example/") for n in range(3)]
    store.feeds.record_visits(
        [visit(feed, f"https://h{n}.example/", due_at=clock.now - n) for n, feed in enumerate(feeds)]
    )
    assert [feed.id for feed in store.feeds.due(clock.now, 2)] == [feeds[2], feeds[1]]
    assert store.feeds.due(clock.now - 3, 9) == []
    assert store.feeds.next_due_at() == clock.now - 2


def test_a_visit_stores_its_posts_once_in_the_outbox(store):
    feed = store.feeds.add(URL)
    posts = [{"id": str(n), "text": "crème\x00brûlée"} for n in range(2_001)]
    assert (
        store.feeds.record_visits([visit(feed, posts=posts, known="[1, 2]", title="T", site="S", visit='{"etag": 1}')])
        == 2_001
    )
    (row,) = store.feeds.all()
    assert (row.articles, row.title, row.site, row.checked_at, row.due_at) == (2_001, "T", "S", 1.0, 2.0)
    assert store.feeds.known_articles([feed, 99]) == {feed: "[1, 2]"}
    assert store.feeds.due(9.0, 9)[0].visit == '{"etag": 1}'
    first, second = store.feeds.outbox()
    assert (first.number, first.lines.count("\n"), second.number) == (1, 2_000, 2)
    assert json.loads(second.lines) == {"id": "2000", "text": "crème\ufffdbrûlée"}
    store.feeds.mark_sent(1)
    store.feeds.mark_sent(2)
    store.feeds.record_visits([visit(feed, posts=posts[:1])])
    assert [row.number for row in store.feeds.outbox()] == [3]
    assert store.feeds.known_articles([feed]) == {feed: "[1, 2]"}


def test_a_visit_to_a_removed_feed_is_ignored(store):
    feed = store.feeds.add(URL)
    store.feeds.remove(feed)
    assert store.feeds.record_visits([visit(feed, posts=[{"id": "1"}], known="[]")]) == 0
    assert list(store.feeds.outbox()) == list(store.feeds.all()) == []
    assert store.feeds.known_articles([feed]) == {}


def test_a_moved_feed_is_found_under_both_urls(store):
    feed = store.feeds.add(URL)
    store.feeds.record_visits([visit(feed, OTHER)])
    assert [feed.url for feed in store.feeds.all()] == [OTHER]
    assert store.feeds.add(URL) == store.feeds.add(OTHER) == feed
    store.feeds.record_visits([visit(feed, URL)])
    store.feeds.record_visits([visit(feed, OTHER)])
    assert [feed.url for feed in store.feeds.all()] == [OTHER]


def test_a_feed_that_moves_to_another_feed_is_merged_into_it(store):
    first, second = store.feeds.add(URL, "ann", "Mine"), store.feeds.add(OTHER, "bob")
    assert store.feeds.record_visits([visit(first, OTHER, posts=[{"id": "1"}], known="[]")]) == 0
    assert [feed.id for feed in store.feeds.all()] == [second]
    assert [(feed.id, feed.title) for feed in store.feeds.all("ann")] == [(second, "Mine")]
    assert store.feeds.add(URL, "eve") == second


def test_a_gone_feed_is_due_only_after_it_is_added_again(store, clock):
    feed = store.feeds.add(URL)
    store.feeds.record_visits([visit(feed, state="gone", due_at=None, error="the server says it is gone")])
    assert store.feeds.due(clock.now * 2, 9) == []
    assert store.feeds.next_due_at() is None
    assert store.feeds.add(URL) == feed
    assert [feed.id for feed in store.feeds.due(clock.now, 9)] == [feed]


def test_the_leases_of_crawler_and_stream_are_independent(location):
    with open_store(location) as first, open_store(location) as second, first.lease("crawler"):
        with pytest.raises(StoreBusy, match="The crawler of"), second.lease("crawler"):
            pass
        with second.lease("stream"):
            pass


def test_a_feed_without_articles_is_read_from_the_beginning_after_an_upgrade(location, monkeypatch):
    before = schema.MIGRATIONS[: schema.MIGRATIONS.index(schema._BACKLOG)]
    monkeypatch.setattr(schema.migrate, "__defaults__", (before,))
    with open_store(location) as store:
        empty, full = store.feeds.add(URL), store.feeds.add(OTHER)
        read = '{"read_at": 1.0}'
        store.feeds.record_visits([visit(empty, visit=read), visit(full, OTHER, visit=read, posts=[{"id": "1"}])])
    monkeypatch.undo()
    with open_store(location) as store:
        assert {feed.id: feed.visit for feed in store.feeds.due(2.0, 9)} == {empty: "{}", full: read}
