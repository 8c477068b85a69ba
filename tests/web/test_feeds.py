"""Feeds over HTTP: follow, list, unfollow, OPML, quotas."""

from __future__ import annotations

import pytest

from tidings.store.accounts import Quotas
from tidings.store.feeds import VisitRecord

LIST = """<?xml version="1.0"?><opml version="2.0"><head/><body><outline text="News">
<outline type="rss" text="One" xmlUrl="https://one.org/rss"/><outline type="rss" text="Two" xmlUrl="https://two.org/rss"/>
<outline type="rss" text="Bad" xmlUrl="gopher://bad.org"/></outline></body></opml>"""


def follow(client, url="https://e.org/rss", **more):
    return client.post("/api/feeds", json={"url": url, **more})


def import_opml(client, document):
    return client.post("/api/opml", content=document, headers={"Content-Type": "text/x-opml"})


def test_a_feed_is_followed_listed_and_unfollowed(ann):
    made = follow(ann, "E.org/rss")
    assert made.status_code == 201
    assert (made.json()["url"], made.json()["state"]) == ("https://e.org/rss", "new")
    assert ann.get("/api/feeds").json() == {"feeds": [made.json()]}
    path = f"/api/feeds/{made.json()['id']}"
    assert ann.get(path).json() == made.json()
    assert follow(ann, "https://e.org/rss").json() == made.json()
    assert ann.delete(path).status_code == 204
    assert ann.get(path).status_code == 404


def test_the_state_of_a_feed_is_shown_after_a_visit(ann, context):
    made = follow(ann).json()
    (feed,) = context.write_store.feeds.all("ann")
    later = feed.added_at + 10
    outcome = VisitRecord(
        feed.id, feed.url, "failing", later, later + 60, "It answers 500.", "<b>T</b>", "javascript:x"
    )
    context.write_store.feeds.record_visits([outcome])
    shown = ann.get(f"/api/feeds/{made['id']}").json()
    assert (shown["state"], shown["error"]) == ("failing", "It answers 500.")
    assert (shown["title"], shown["site"]) == ("<b>T</b>", "")
    assert shown["checked_at"] > shown["added_at"]


@pytest.mark.parametrize("url", ["", "gopher://e.org", "http://", "a b", "x" * 3_000])
def test_an_invalid_url_is_rejected(ann, url):
    answer = follow(ann, url)
    assert (answer.status_code, bool(answer.json()["error"])) == (422, True)
    assert ann.get("/api/feeds").json() == {"feeds": []}


def test_the_password_of_a_feed_is_shown_nowhere(ann, context):
    made = follow(ann, "https://me:secret@e.org/rss")
    rejected = follow(ann, "https://me:secret@e.org:port/")
    listed, exported = ann.get("/api/feeds"), ann.get("/api/opml")
    imported = import_opml(ann, '<opml><outline xmlUrl="gopher://me:secret@e.org/"/></opml>')
    assert made.json()["url"] == "https://•••@e.org/rss"
    assert 'xmlUrl="https://e.org/rss"' in exported.text
    assert "secret" not in "".join(answer.text for answer in (made, rejected, listed, exported, imported))
    (feed,) = context.write_store.feeds.all("ann")
    assert feed.url == "https://me:secret@e.org/rss"
    assert follow(ann, "https://me:secret@e.org/rss").json()["id"] == made.json()["id"]
    assert ann.delete(f"/api/feeds/{made.json()['id']}").status_code == 204


def test_the_feed_quota_is_enforced(ann, context):
    context.write_store.accounts.set_quotas("ann", Quotas(feeds=1))
    assert follow(ann).status_code == 201
    assert follow(ann, title="again").status_code == 201
    answer = follow(ann, "https://other.org/rss")
    assert (answer.status_code, "Feed quota reached" in answer.json()["error"]) == (429, True)
    context.write_store.accounts.set_quotas("ann", Quotas(feeds=0))
    assert follow(ann, title="mine stays").status_code == 201
    assert len(ann.get("/api/feeds").json()["feeds"]) == 1


def test_opml_is_imported_and_exported(ann, bob):
    result = import_opml(ann, LIST).json()
    assert result["added"] == 2
    assert "gopher" in result["rejected"][0]
    exported = ann.get("/api/opml")
    assert exported.headers["content-type"] == "text/x-opml; charset=utf-8"
    assert import_opml(bob, exported.content).json() == {"added": 2, "rejected": []}
    urls = [[feed["url"] for feed in client.get("/api/feeds").json()["feeds"]] for client in (ann, bob)]
    assert urls == [["https://one.org/rss", "https://two.org/rss"]] * 2


def test_many_spellings_of_one_url_in_a_list_are_one_write(ann, context, monkeypatch):
    """Each would be a transaction, during which other owners cannot add feeds."""
    outlines = "".join(f'<outline xmlUrl="https://one.org/rss#{number}"/>' for number in range(50))
    writes, feeds = [], context.write_store.feeds
    add = feeds.add
    monkeypatch.setattr(feeds, "add", lambda *arguments: writes.append(arguments) or add(*arguments))
    assert import_opml(ann, f"<opml><body>{outlines}</body></opml>").json() == {"added": 1, "rejected": []}
    assert len(writes) == 1


def test_a_list_is_imported_up_to_the_quota(ann, context):
    context.write_store.accounts.set_quotas("ann", Quotas(feeds=1))
    result = import_opml(ann, LIST).json()
    assert (result["added"], "Feed quota reached" in result["rejected"][0]) == (1, True)
    assert import_opml(ann, LIST.replace("one.org", "three.org")).status_code == 429
    assert ann.get("/api/me").json()["feeds"] == {"used": 1, "limit": 1}


@pytest.mark.parametrize("document", ["", "no XML", "<rss/>", '<!DOCTYPE a [<!ENTITY b "c">]><opml>&b;</opml>'])
def test_an_invalid_list_is_rejected_with_a_reason(ann, document):
    answer = import_opml(ann, document)
    assert (answer.status_code, answer.json()["error"].startswith("OPML")) == (422, True)
