"""Feeds in the store: followed by owners, visited by the crawler, their articles on the way to the stream."""

from __future__ import annotations

import json

import pytest

from tidings.errors import InputError, StoreBusy, UnknownFeed
from tidings.store import Visited, open_store

URL, OTHER = "https://example.com/feed", "https://example.org/feed"


def visit(feed, url=URL, **more):
    told = {"state": "ok", "checked_at": 1.0, "due_at": 2.0, **more}
    return Visited(feed, url, **told)


def test_a_feed_is_there_once_however_many_follow_it(store, clock):
    first = store.add_feed(URL, "ann", "Ann's")
    assert store.add_feed("HTTPS://Example.com:443/feed#top", "bob") == first
    assert store.add_feed(URL, "ann") == first
    (anns,), (bobs,), (feed,) = (list(store.feeds(who)) for who in ("ann", "bob", None))
    assert (anns.title, bobs.title, feed.url, feed.state, feed.due_at) == ("Ann's", "", URL, "new", clock.now)
    assert list(store.feeds("eve")) == []


def test_a_feed_goes_with_its_last_owner(store):
    feed = store.add_feed(URL, "ann")
    store.add_feed(URL, "bob")
    store.visited([visit(feed, known="[1]")])
    store.remove_feed(feed, "ann")
    assert [one.id for one in store.feeds()] == [feed]
    assert list(store.feeds("ann")) == []
    store.remove_feed(feed, "bob")
    assert list(store.feeds()) == []
    assert store.known_articles([feed]) == {}
    assert store.add_feed(URL) == feed + 1


def test_what_one_does_not_follow_cannot_be_removed(store):
    feed = store.add_feed(URL, "ann")
    for number, owner in ((feed, "bob"), (feed + 1, None), (-1, None), (1 << 70, "ann")):
        with pytest.raises(UnknownFeed, match=f"Feed {number} does not exist"):
            store.remove_feed(number, owner)
    with pytest.raises(InputError, match="is no address"):
        store.add_feed("gopher://example.com/")


def test_the_longest_waiting_feeds_are_due_first(store, clock):
    feeds = [store.add_feed(f"https://h{n}.example/") for n in range(3)]
    store.visited([visit(feed, f"https://h{n}.example/", due_at=clock.now - n) for n, feed in enumerate(feeds)])
    assert [one.id for one in store.due_feeds(clock.now, 2)] == [feeds[2], feeds[1]]
    assert store.due_feeds(clock.now - 3, 9) == []
    assert store.next_due_at() == clock.now - 2


def test_what_a_visit_found_is_stored_at_once_and_goes_out_once(store):
    feed = store.add_feed(URL)
    posts = [{"id": str(n), "text": "crème\x00brûlée"} for n in range(2_001)]
    assert store.visited([visit(feed, posts=posts, known="[1, 2]", title="T", site="S", visit='{"etag": 1}')]) == 2_001
    (one,) = store.feeds()
    assert (one.articles, one.title, one.site, one.checked_at, one.due_at) == (2_001, "T", "S", 1.0, 2.0)
    assert store.known_articles([feed, 99]) == {feed: "[1, 2]"}
    assert store.due_feeds(9.0, 9)[0].visit == '{"etag": 1}'
    first, second = store.outbox()
    assert (first.number, first.lines.count("\n"), second.number) == (1, 2_000, 2)
    assert json.loads(second.lines) == {"id": "2000", "text": "crème\ufffdbrûlée"}
    store.sent(1)
    store.sent(2)
    store.visited([visit(feed, posts=posts[:1])])
    assert [row.number for row in store.outbox()] == [3]
    assert store.known_articles([feed]) == {feed: "[1, 2]"}


def test_articles_of_a_feed_removed_meanwhile_stay_behind(store):
    feed = store.add_feed(URL)
    store.remove_feed(feed)
    assert store.visited([visit(feed, posts=[{"id": "1"}], known="[]")]) == 0
    assert list(store.outbox()) == list(store.feeds()) == []
    assert store.known_articles([feed]) == {}


def test_a_new_address_is_remembered_and_so_is_the_old_one(store):
    feed = store.add_feed(URL)
    store.visited([visit(feed, OTHER)])
    assert [one.url for one in store.feeds()] == [OTHER]
    assert store.add_feed(URL) == store.add_feed(OTHER) == feed
    store.visited([visit(feed, URL)])
    store.visited([visit(feed, OTHER)])
    assert [one.url for one in store.feeds()] == [OTHER]


def test_a_feed_that_moves_to_another_becomes_that_one(store):
    first, second = store.add_feed(URL, "ann", "Mine"), store.add_feed(OTHER, "bob")
    assert store.visited([visit(first, OTHER, posts=[{"id": "1"}], known="[]")]) == 0
    assert [one.id for one in store.feeds()] == [second]
    assert [(one.id, one.title) for one in store.feeds("ann")] == [(second, "Mine")]
    assert store.add_feed(URL, "eve") == second


def test_a_feed_that_is_gone_is_never_due_until_it_is_added_again(store, clock):
    feed = store.add_feed(URL)
    store.visited([visit(feed, state="gone", due_at=None, error="the server says it is gone")])
    assert store.due_feeds(clock.now * 2, 9) == []
    assert store.next_due_at() is None
    assert store.add_feed(URL) == feed
    assert [one.id for one in store.due_feeds(clock.now, 9)] == [feed]


def test_one_process_crawls_a_store_while_another_may_run_its_stream(where):
    with open_store(where) as one, open_store(where) as other, one.hold_crawler():
        with pytest.raises(StoreBusy, match="The crawler of"), other.hold_crawler():
            pass
        with other.hold_stream():
            pass
