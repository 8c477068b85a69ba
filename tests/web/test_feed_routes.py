"""Feeds under secret URLs: documents, and conditional requests."""

from __future__ import annotations

from urllib.parse import urlsplit

import feedparser
import pytest
from tests.web.test_subscriptions import subscribe

from tidings.errors import StoreError

KINDS = {"rss": "application/rss+xml", "atom": "application/atom+xml", "json": "application/feed+json"}


def feed_paths(made):
    return {kind: urlsplit(made["addresses"][kind]).path for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
def test_a_feed_lists_the_newest_matches_first(ann, anonymous, store_matches, kind):
    made = subscribe(ann)
    store_matches(made["id"], ["a", "b"], title=["First", "Second"])
    answer = anonymous.get(feed_paths(made)[kind])
    assert answer.headers["content-type"] == f"{KINDS[kind]}; charset=utf-8"
    items = answer.json()["items"] if kind == "json" else feedparser.parse(answer.content).entries
    assert [item["title"] for item in items] == ["Second", "First"]
    assert made["addresses"][kind] in answer.text


@pytest.mark.parametrize("kind", KINDS)
def test_an_unchanged_feed_returns_304_until_there_is_a_new_match(ann, anonymous, store_matches, kind):
    made = subscribe(ann)
    path = feed_paths(made)[kind]
    for name in ("a", "b"):
        store_matches(made["id"], [name])
        first = anonymous.get(path)
        assert first.status_code == 200
        known = first.headers["etag"]
        for tag in (known, f'"x", {known}', "*", known.removeprefix("W/")):
            again = anonymous.get(path, headers={"If-None-Match": tag})
            assert (again.status_code, again.content) == (304, b"")
            assert again.headers["etag"] == known
    assert anonymous.get(path, headers={"If-None-Match": '"x"'}).status_code == 200


def test_if_modified_since_counts_only_without_if_none_match(ann, anonymous, store_matches, context):
    made = subscribe(ann)
    store_matches(made["id"], ["a"])
    context.write_store.database.execute("UPDATE moment SET at = at - 100")
    context.write_store.database.execute("UPDATE subscription SET created_at = created_at - 200")
    path = feed_paths(made)["rss"]
    date = anonymous.get(path).headers["last-modified"]
    assert anonymous.get(path, headers={"If-Modified-Since": date}).status_code == 304
    assert anonymous.get(path, headers={"If-Modified-Since": date, "If-None-Match": '"x"'}).status_code == 200
    for wrong in ("yesterday", "", "Thu, 01 Jan 1970 00:00:00 GMT"):
        assert anonymous.get(path, headers={"If-Modified-Since": wrong}).status_code == 200
    store_matches(made["id"], ["b"])
    assert anonymous.get(path, headers={"If-Modified-Since": date}).status_code == 200


def test_if_modified_since_misses_no_second_match_of_a_second(ann, anonymous, store_matches):
    made = subscribe(ann)
    path = feed_paths(made)["rss"]
    store_matches(made["id"], ["a"])
    date = anonymous.get(path).headers["last-modified"]
    store_matches(made["id"], ["b"])
    assert anonymous.get(path, headers={"If-Modified-Since": date}).status_code == 200


def test_polling_an_unchanged_feed_writes_nothing(ann, anonymous, store_matches, context):
    made = subscribe(ann)
    store_matches(made["id"], ["a"])
    path = feed_paths(made)["rss"]
    tag = anonymous.get(path).headers["etag"]
    stores = (context.read_store.database.connection, context.write_store.database.connection)
    before = [connection.total_changes() for connection in stores]
    for _ in range(10):
        assert anonymous.get(path, headers={"If-None-Match": tag}).status_code == 304
    assert [connection.total_changes() for connection in stores] == before


def test_renewing_the_feed_url_ends_the_old_one(ann, anonymous):
    made = subscribe(ann)
    renewed = ann.post(f"/api/subscriptions/{made['id']}/address").json()
    assert anonymous.get(feed_paths(made)["rss"]).status_code == 404
    assert anonymous.get(feed_paths(renewed)["rss"]).status_code == 200
    ann.delete(f"/api/subscriptions/{made['id']}")
    gone = anonymous.get(feed_paths(renewed)["rss"])
    assert (gone.status_code, gone.json()) == (404, {"error": "There is no such feed."})


def test_a_feed_has_at_most_100_entries_and_escapes_the_query(ann, anonymous, store_matches):
    made = subscribe(ann, 'storm "]]><x> & rain" OR <b>')
    store_matches(made["id"], [f"{n:03}" for n in range(150)])
    read = feedparser.parse(anonymous.get(feed_paths(made)["atom"]).content)
    assert not read.bozo
    assert len(read.entries) == 100


def test_feeds_have_security_headers_and_answer_head(ann, anonymous):
    answer = anonymous.get(feed_paths(subscribe(ann))["rss"])
    assert answer.headers["x-robots-tag"] == "noindex"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert anonymous.head(feed_paths(subscribe(ann))["rss"]).status_code == 200


def test_responses_with_long_posts_are_limited_and_miss_none(ann, anonymous, store_matches):
    """A hundred posts of a megabyte per response would exhaust the memory."""
    made = subscribe(ann)
    for batch in range(3):
        store_matches(made["id"], [f"{batch}-{row}" for row in range(4)], text=["tea " * 250_000] * 4)
    for path in feed_paths(made).values():
        assert 1_000_000 < len(anonymous.get(path).content) < 6_000_000
    seen, after, more = [], 0, True
    while more:
        page = ann.get(f"/api/subscriptions/{made['id']}/matches?after={after}&limit=1000")
        assert len(page.content) < 6_000_000
        body = page.json()
        seen += [match["post_id"] for match in body["matches"]]
        after, more = body["cursor"], body["more"]
    assert seen == [f"{batch}-{row}" for batch in range(3) for row in range(4)]


def test_no_secret_is_written_to_the_log(ann, anonymous, context, monkeypatch, caplog):
    path = feed_paths(subscribe(ann))["rss"]

    def fail(secret):
        raise StoreError("The store is gone.")

    monkeypatch.setattr(context.read_store.feed_urls, "find", fail)
    assert anonymous.get(path).status_code == 503
    assert 'method=GET path=/read/…/rss error="The store is gone."' in caplog.text
    assert path.split("/")[2] not in caplog.text
