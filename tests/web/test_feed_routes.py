"""The secret addresses: documents, and that nothing is new there."""

from __future__ import annotations

from urllib.parse import urlsplit

import feedparser
import pytest
from tests.web.test_subscriptions import subscribe

from tidings.errors import StoreError

KINDS = {"rss": "application/rss+xml", "atom": "application/atom+xml", "json": "application/feed+json"}


def paths(made):
    return {kind: urlsplit(made["addresses"][kind]).path for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
def test_anybody_who_knows_the_address_reads_the_newest_first(ann, anonymous, found, kind):
    made = subscribe(ann)
    found(made["id"], ["a", "b"], title=["First", "Second"])
    answer = anonymous.get(paths(made)[kind])
    assert answer.headers["content-type"] == f"{KINDS[kind]}; charset=utf-8"
    items = answer.json()["items"] if kind == "json" else feedparser.parse(answer.content).entries
    assert [item["title"] for item in items] == ["Second", "First"]
    assert made["addresses"][kind] in answer.text


@pytest.mark.parametrize("kind", KINDS)
def test_a_reader_that_has_it_is_told_so_until_there_is_more(ann, anonymous, found, kind):
    made = subscribe(ann)
    path = paths(made)[kind]
    for name in ("a", "b"):
        found(made["id"], [name])
        first = anonymous.get(path)
        assert first.status_code == 200
        known = first.headers["etag"]
        for tag in (known, f'"x", {known}', "*", known.removeprefix("W/")):
            again = anonymous.get(path, headers={"If-None-Match": tag})
            assert (again.status_code, again.content) == (304, b"")
            assert again.headers["etag"] == known
    assert anonymous.get(path, headers={"If-None-Match": '"x"'}).status_code == 200


def test_a_date_counts_where_there_is_no_tag(ann, anonymous, found, service):
    made = subscribe(ann)
    found(made["id"], ["a"])
    service.writing.database.run("UPDATE moment SET at = at - 100")
    service.writing.database.run("UPDATE subscription SET created_at = created_at - 200")
    path = paths(made)["rss"]
    date = anonymous.get(path).headers["last-modified"]
    assert anonymous.get(path, headers={"If-Modified-Since": date}).status_code == 304
    assert anonymous.get(path, headers={"If-Modified-Since": date, "If-None-Match": '"x"'}).status_code == 200
    for wrong in ("yesterday", "", "Thu, 01 Jan 1970 00:00:00 GMT"):
        assert anonymous.get(path, headers={"If-Modified-Since": wrong}).status_code == 200
    found(made["id"], ["b"])
    assert anonymous.get(path, headers={"If-Modified-Since": date}).status_code == 200


def test_two_matches_in_one_second_are_not_lost_to_a_reader_of_dates(ann, anonymous, found):
    made = subscribe(ann)
    path = paths(made)["rss"]
    found(made["id"], ["a"])
    date = anonymous.get(path).headers["last-modified"]
    found(made["id"], ["b"])
    assert anonymous.get(path, headers={"If-Modified-Since": date}).status_code == 200


def test_nothing_new_writes_nothing(ann, anonymous, found, service):
    made = subscribe(ann)
    found(made["id"], ["a"])
    path = paths(made)["rss"]
    tag = anonymous.get(path).headers["etag"]
    stores = (service.reading.database.connection, service.writing.database.connection)
    before = [one.total_changes() for one in stores]
    for _ in range(10):
        assert anonymous.get(path, headers={"If-None-Match": tag}).status_code == 304
    assert [one.total_changes() for one in stores] == before


def test_a_renewed_address_ends_the_one_before(ann, anonymous):
    made = subscribe(ann)
    renewed = ann.post(f"/api/subscriptions/{made['id']}/address").json()
    assert anonymous.get(paths(made)["rss"]).status_code == 404
    assert anonymous.get(paths(renewed)["rss"]).status_code == 200
    ann.delete(f"/api/subscriptions/{made['id']}")
    gone = anonymous.get(paths(renewed)["rss"])
    assert (gone.status_code, gone.json()) == (404, {"error": "There is no such feed."})


def test_a_document_is_bounded_and_a_query_cannot_break_it(ann, anonymous, found):
    made = subscribe(ann, 'storm "]]><x> & rain" OR <b>')
    found(made["id"], [f"{n:03}" for n in range(150)])
    read = feedparser.parse(anonymous.get(paths(made)["atom"]).content)
    assert not read.bozo
    assert len(read.entries) == 100


def test_headers_keep_browsers_and_robots_at_bay(ann, anonymous):
    answer = anonymous.get(paths(subscribe(ann))["rss"])
    assert answer.headers["x-robots-tag"] == "noindex"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert anonymous.head(paths(subscribe(ann))["rss"]).status_code == 200


def test_long_posts_make_no_long_answer_and_none_is_missed(ann, anonymous, found):
    """A hundred posts of a megabyte each in every answer would take the machine's memory."""
    made = subscribe(ann)
    for batch in range(3):
        found(made["id"], [f"{batch}-{row}" for row in range(4)], text=["tea " * 250_000] * 4)
    for path in paths(made).values():
        assert 1_000_000 < len(anonymous.get(path).content) < 6_000_000
    seen, after, more = [], 0, True
    while more:
        page = ann.get(f"/api/subscriptions/{made['id']}/matches?after={after}&limit=1000")
        assert len(page.content) < 6_000_000
        told = page.json()
        seen += [match["post_id"] for match in told["matches"]]
        after, more = told["cursor"], told["more"]
    assert seen == [f"{batch}-{row}" for batch in range(3) for row in range(4)]


def test_no_secret_address_is_written_to_a_log(ann, anonymous, service, monkeypatch, caplog):
    path = paths(subscribe(ann))["rss"]

    def lost(secret):
        raise StoreError("The store is gone.")

    monkeypatch.setattr(service.reading.addresses, "find", lost)
    assert anonymous.get(path).status_code == 503
    assert "GET /read/…/rss: The store is gone." in caplog.text
    assert path.split("/")[2] not in caplog.text
