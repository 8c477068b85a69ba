"""Feed documents: three formats with the same content for any post."""

from __future__ import annotations

import html
import json
from datetime import UTC, datetime
from xml.etree import ElementTree as ET

import feedparser
import nh3
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.delivery.feeds.atom import write_atom
from tidings.delivery.feeds.json_feed import write_json_feed
from tidings.delivery.feeds.model import build_document, parse_post_time
from tidings.delivery.feeds.rss import write_rss
from tidings.store.rows import StoredMatch

ATOM = "{http://www.w3.org/2005/Atom}"


def match(cursor=1, post_id="a", text="text", **more):
    fields = dict.fromkeys(("time", "author", "lang", "lat", "lon", "title", "link"))
    fields |= {"tags": [], "arrived_at": 1_800_000_000.0, "index_version": 1, "batch": 1, **more}
    return StoredMatch(cursor=cursor, post_id=post_id, text=text, **fields)


def make_document(*matches):
    return build_document(7, 'storm OR "heavy rain"', matches, "http://t/read/x/kind", "http://t/", 1_800_000_100.0)


matches = st.builds(
    match,
    post_id=st.text() | st.integers(),
    text=st.text() | st.none(),
    title=st.text() | st.none(),
    author=st.text() | st.none(),
    link=st.text() | st.text().map("https://e.org/{}".format) | st.none(),
    time=st.text() | st.none(),
    tags=st.lists(st.text(), max_size=3),
)


@settings(max_examples=50, deadline=None)
@given(st.lists(matches, max_size=3))
def test_all_formats_have_the_same_entries(stored):
    document = make_document(*stored)
    channel = ET.fromstring(write_rss(document))[0]
    feed = ET.fromstring(write_atom(document))
    feed_json = json.loads(write_json_feed(document))
    items, entries = channel.findall("item"), feed.findall(f"{ATOM}entry")
    ids = [entry.id for entry in document.entries]
    assert [item.findtext("guid") for item in items] == ids
    assert [entry.findtext(f"{ATOM}id") for entry in entries] == ids
    assert [item["id"] for item in feed_json["items"]] == ids
    links = [entry.link for entry in document.entries]
    assert [item.findtext("link") for item in items] == links
    assert [item.get("url") for item in feed_json["items"]] == links
    assert all(link is None or link.startswith(("http://", "https://")) for link in links)


def test_feedparser_reads_rss_and_atom():
    document = make_document(
        match(1, text="<b>bold</b> & so on", title="A <i>title</i>", link="https://e.org/1", author="Ann", tags=["x"]),
        match(2, "b", text="second", time="2026-01-02T03:04:05+01:00"),
    )
    for written in (write_rss(document), write_atom(document)):
        read = feedparser.parse(written)
        assert not read.bozo
        assert read.feed.title == 'Tidings: storm OR "heavy rain"'
        newest, oldest = read.entries
        assert newest.published_parsed[:6] == (2026, 1, 2, 2, 4, 5)
        assert oldest.link == "https://e.org/1"
        assert newest.id.startswith("urn:uuid:")
        (self,) = [link for link in read.feed.links if link.rel == "self"]
        assert self.href == "http://t/read/x/kind"


def test_markup_in_a_post_is_escaped():
    document = make_document(match(text="<script>alert(1)</script>"))
    item = ET.fromstring(write_rss(document))[0].find("item")
    assert item.findtext("description") == "&lt;script&gt;alert(1)&lt;/script&gt;"  # HTML that displays the text
    content = ET.fromstring(write_atom(document)).find(f"{ATOM}entry/{ATOM}content")
    assert (content.get("type"), content.text) == ("text", "<script>alert(1)</script>")


PLAIN_WORDS = ["AT&T", "a < b", "1 &2", "5 > 4", "R&D;", "Tom & Jerry", "I <3 tea", "", "né"]
AMBIGUOUS = ["<b>bold</b>", "&amp;", "Vec<T>", "&#60;script>", "</p>", "<!-- x", "&copy 2026"]


@pytest.mark.parametrize("text", PLAIN_WORDS + AMBIGUOUS)
def test_every_text_of_rss_is_displayed_as_it_is_by_readers_that_expect_html(text):
    """Readers decode the text of an element as HTML; readers that do not see escapes, but never markup."""
    stored = match(text=text or "-", title=text or "-", author=text or None, tags=[text] if text else [])
    item = ET.fromstring(write_rss(make_document(stored)))[0].find("item")
    for name in ("title", "description", "category", "{http://purl.org/dc/elements/1.1/}creator"):
        raw = item.findtext(name)
        assert raw is None or nh3.clean_text(html.unescape(raw)) == nh3.clean_text(text or "-")
        assert raw is None or nh3.clean(raw, tags=set()) == html.escape(text or "-", quote=False)
        assert text in AMBIGUOUS or name == "description" or raw in (text, "-", None)


def test_a_title_written_to_rss_is_read_back():
    from tidings.crawl.parse import parse

    for text in filter(None, PLAIN_WORDS + AMBIGUOUS):
        stored = match(text=f"{text}\nsecond line", title=text, author=text, tags=[text])
        (article,) = parse(write_rss(make_document(stored)), "", "https://e.org/").articles
        assert (article.title, article.author, article.tags) == (text, text, (text,))
        assert article.text == f"{text}\nsecond line"


def test_entries_have_the_time_of_their_post_and_not_of_its_arrival():
    document = make_document(match(1, "old", time="2019-05-06T07:08:09Z"), match(2, "unknown"))
    rss, feed = ET.fromstring(write_rss(document))[0], ET.fromstring(write_atom(document))
    assert [item.findtext("pubDate") for item in rss.findall("item")] == [
        "Fri, 15 Jan 2027 08:00:00 +0000",
        "Mon, 06 May 2019 07:08:09 +0000",
    ]
    for name in ("published", "updated"):
        shown = [entry.findtext(f"{ATOM}{name}") for entry in feed.findall(f"{ATOM}entry")]
        assert shown == ["2027-01-15T08:00:00Z", "2019-05-06T07:08:09Z"]
    items = json.loads(write_json_feed(document))["items"]
    assert [item["date_published"][:10] for item in items] == ["2027-01-15", "2019-05-06"]


def test_entry_ids_depend_only_on_the_post():
    first, second = make_document(match(1, "a"), match(2, 5)), make_document(match(9, 5), match(10, "5"))
    assert first.entries[0].id == second.entries[1].id
    assert second.entries[0].id != second.entries[1].id


def test_only_web_links_are_included():
    links = ["javascript:alert(1)", "HTTPS://e.org/", "//e.org", "ftp://e.org", ""]
    document = make_document(*(match(n, str(n), link=link) for n, link in enumerate(links)))
    assert [entry.link for entry in document.entries[::-1]] == [None, "https://e.org/", None, None, None]


@pytest.mark.parametrize(
    ("time", "moment"),
    [
        ("2026-01-02T03:04:05Z", (2026, 1, 2, 3, 4, 5)),
        ("2026-01-02", (2026, 1, 2)),
        ("1767323045", (2026, 1, 2, 3, 4, 5)),
        ("Fri, 02 Jan 2026 03:04:05 GMT", (2026, 1, 2, 3, 4, 5)),
    ],
)
def test_common_time_formats_are_parsed(time, moment):
    assert parse_post_time(time) == datetime(*moment, tzinfo=UTC)


@pytest.mark.parametrize("time", [None, "", "yesterday", "9" * 30, "nan", "inf", "-1e300", "0001-01-01T00:00:00+14:00"])
def test_an_invalid_time_is_none(time):
    assert parse_post_time(time) is None
