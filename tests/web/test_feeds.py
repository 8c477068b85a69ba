"""Feeds over HTTP: followed, shown with their health, exchanged as OPML, bounded."""

from __future__ import annotations

import pytest

from tidings.store.accounts import Quotas
from tidings.store.feeds import Visited

LIST = """<?xml version="1.0"?><opml version="2.0"><head/><body><outline text="News">
<outline type="rss" text="One" xmlUrl="https://one.org/rss"/><outline type="rss" text="Two" xmlUrl="https://two.org/rss"/>
<outline type="rss" text="Bad" xmlUrl="gopher://bad.org"/></outline></body></opml>"""


def follow(client, url="https://e.org/rss", **more):
    return client.post("/api/feeds", json={"url": url, **more})


def sent(client, document):
    return client.post("/api/opml", content=document, headers={"Content-Type": "text/x-opml"})


def test_a_feed_is_followed_shown_and_left(ann):
    made = follow(ann, "E.org/rss")
    assert made.status_code == 201
    assert (made.json()["url"], made.json()["state"]) == ("https://e.org/rss", "new")
    assert ann.get("/api/feeds").json() == {"feeds": [made.json()]}
    path = f"/api/feeds/{made.json()['id']}"
    assert ann.get(path).json() == made.json()
    assert follow(ann, "https://e.org/rss").json() == made.json()
    assert ann.delete(path).status_code == 204
    assert ann.get(path).status_code == 404


def test_its_health_is_told_once_it_was_visited(ann, service):
    made = follow(ann).json()
    (feed,) = service.writing.feeds("ann")
    later = feed.added_at + 10
    outcome = Visited(feed.id, feed.url, "failing", later, later + 60, "It answers 500.", "<b>T</b>", "javascript:x")
    service.writing.visited([outcome])
    told = ann.get(f"/api/feeds/{made['id']}").json()
    assert (told["state"], told["error"]) == ("failing", "It answers 500.")
    assert (told["title"], told["site"]) == ("<b>T</b>", "")
    assert told["checked_at"] > told["added_at"]


@pytest.mark.parametrize("url", ["", "gopher://e.org", "http://", "a b", "x" * 3_000])
def test_what_is_no_address_is_refused(ann, url):
    told = follow(ann, url)
    assert (told.status_code, bool(told.json()["error"])) == (422, True)
    assert ann.get("/api/feeds").json() == {"feeds": []}


def test_no_more_feeds_than_the_quota(ann, service):
    service.writing.accounts.set_quotas("ann", Quotas(feeds=1))
    assert follow(ann).status_code == 201
    assert follow(ann, title="again").status_code == 201
    told = follow(ann, "https://other.org/rss")
    assert (told.status_code, "follow them all" in told.json()["error"]) == (429, True)
    service.writing.accounts.set_quotas("ann", Quotas(feeds=0))
    assert follow(ann, title="mine stays").status_code == 201
    assert len(ann.get("/api/feeds").json()["feeds"]) == 1


def test_lists_go_in_and_out(ann, bob):
    told = sent(ann, LIST).json()
    assert told["added"] == 2
    assert "gopher" in told["refused"][0]
    exported = ann.get("/api/opml")
    assert exported.headers["content-type"] == "text/x-opml; charset=utf-8"
    assert sent(bob, exported.content).json() == {"added": 2, "refused": []}
    urls = [[feed["url"] for feed in client.get("/api/feeds").json()["feeds"]] for client in (ann, bob)]
    assert urls == [["https://one.org/rss", "https://two.org/rss"]] * 2


def test_a_list_that_spells_one_feed_in_many_ways_is_one_write(ann, service, monkeypatch):
    """Each would be a transaction, while nobody else can add a feed."""
    spelt = "".join(f'<outline xmlUrl="https://one.org/rss#{number}"/>' for number in range(50))
    writes, add = [], service.writing.add_feed
    monkeypatch.setattr(type(service.writing), "add_feed", lambda _, *given: writes.append(given) or add(*given))
    assert sent(ann, f"<opml><body>{spelt}</body></opml>").json() == {"added": 1, "refused": []}
    assert len(writes) == 1


def test_a_list_is_taken_as_far_as_the_quota_goes(ann, service):
    service.writing.accounts.set_quotas("ann", Quotas(feeds=1))
    told = sent(ann, LIST).json()
    assert (told["added"], "follow them all" in told["refused"][0]) == (1, True)
    assert sent(ann, LIST.replace("one.org", "three.org")).status_code == 429
    assert ann.get("/api/me").json()["feeds"] == {"used": 1, "limit": 1}


@pytest.mark.parametrize("document", ["", "no XML", "<rss/>", '<!DOCTYPE a [<!ENTITY b "c">]><opml>&b;</opml>'])
def test_what_is_no_list_is_refused_with_the_reason(ann, document):
    told = sent(ann, document)
    assert (told.status_code, told.json()["error"].startswith("The list")) == (422, True)
