"""Parse every feed format, common errors in feeds, and all real documents of the test data."""

from __future__ import annotations

import json
import re
import time
import zipfile
from contextlib import suppress
from dataclasses import astuple, replace
from datetime import datetime

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.data import shared

from tidings.crawl import parse_lenient, parse_xml
from tidings.crawl.article import Article, NotAFeed
from tidings.crawl.dates import parse_any_date, parse_date
from tidings.crawl.discover import find_feed_links
from tidings.crawl.opml import OpmlFeed, read_opml, write_opml
from tidings.crawl.parse import parse
from tidings.errors import InputError
from tidings.testing.feed_servers import item, rss

URL = "https://a.example/dir/feed"
NOON = 1_767_268_800.0  # 2026-01-01 12:00 UTC
EXPECTED = Article("1", "https://a.example/x", "Tom & Jerry", "Bold words", "Ann", NOON, ("news",))
ATOM = """<feed xmlns="http://www.w3.org/2005/Atom"><title>T</title><link href="https://a.example/"/>{}<entry><id>1</id>
<title type="{}">Tom {} Jerry</title><link rel="enclosure" href="/no"/><link href="../x"/>
<author><name>Ann</name></author><published>2026-01-01T13:00:00+01:00</published>
<category term="news"/><content type="{}">{}</content></entry></feed>"""
DOCUMENTS = {
    "rss 2.0": """<rss version="2.0" xmlns:dc="http://purl.org/dc/elements/1.1/"><channel><title>T</title>
<link>https://a.example/</link><item><guid isPermaLink="false">1</guid><link>/x</link><title>Tom &amp;amp; Jerry</title>
<description>&lt;b&gt;Bold&lt;/b&gt; words</description><dc:creator>Ann</dc:creator><category>news</category>
<pubDate>Thu, 01 Jan 2026 12:00:00 GMT</pubDate></item></channel></rss>""",
    "rss 0.91 with its DTD": """<?xml version="1.0"?><!DOCTYPE rss PUBLIC "-//Netscape//DTD RSS 0.91//EN"
"http://my.netscape.com/publish/formats/rss-0.91.dtd"><rss version="0.91"><channel><title>T</title>
<link>https://a.example/</link>
<item><guid isPermaLink="false">1</guid><title>Tom &amp; Jerry</title><link>https://a.example/x</link>
<author>Ann</author><category>news</category><description>Bold words</description>
<pubDate>Thu, 01 Jan 2026 12:00:00 +0000</pubDate></item></channel></rss>""",
    "rss 1.0": """<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/"
xmlns:dc="http://purl.org/dc/elements/1.1/"><channel rdf:about="c"><title>T</title><link>https://a.example/</link></channel>
<item rdf:about="1"><title>Tom &amp; Jerry</title><link>https://a.example/x</link><description>Bold words</description>
<dc:creator>Ann</dc:creator><dc:date>2026-01-01T12:00:00Z</dc:date><dc:subject>news</dc:subject></item></rdf:RDF>""",
    "atom, html": ATOM.format("", "html", "&amp;amp;", "html", "&lt;b&gt;Bold&lt;/b&gt; words"),
    "atom, text": ATOM.format("", "text", "&amp;", "text", "Bold words"),
    "atom, xhtml": ATOM.format(
        "", "text", "&amp;", "xhtml", '<div xmlns="http://www.w3.org/1999/xhtml"><b>Bold</b> words</div>'
    ),
    "json": """{"version": "https://jsonfeed.org/version/1.1", "title": "T",
"home_page_url": "https://a.example/", "items": [{"id": 1, "url": "/x", "title": "Tom & Jerry",
"content_html": "<b>Bold</b> words", "authors": [{"name": "Ann"}],
"date_published": "2026-01-01T12:00:00Z", "tags": ["news", 7]}, "junk"]}""",
}
BROKEN = {
    "an ampersand": DOCUMENTS["rss 2.0"].replace("&amp;amp;", "& "),
    "an HTML entity": DOCUMENTS["rss 2.0"].replace("&amp;amp;", "&amp;amp;&nbsp;"),
    "a cut": DOCUMENTS["rss 2.0"].replace("</item></channel></rss>", ""),
    "blank lines first": "\n\n  " + DOCUMENTS["rss 1.0"].replace("<rdf:RDF", '<?xml version="1.0"?>\n<rdf:RDF', 1),
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_all_formats_give_the_same_articles(name):
    found = parse(DOCUMENTS[name].encode(), "", URL)
    assert (found.title, found.site, found.articles) == ("T", "https://a.example/", (EXPECTED,))


@pytest.mark.parametrize("name", BROKEN)
def test_common_errors_are_tolerated(name):
    (found,) = parse(BROKEN[name].encode(), "", URL).articles
    assert (found.guid, found.link, found.text) == ("1", "https://a.example/x", "Bold words")


@pytest.mark.parametrize("charset", ["utf-8", "iso-8859-1", "windows-1252", "utf-16", "koi8-r", "shift_jis"])
def test_encodings_declared_by_document_or_server_are_decoded(charset):
    word = {"koi8-r": "Привет", "shift_jis": "日本語"}.get(charset, "Crème brûlée")
    document = rss(item("1", title=word)).decode()
    declared = document.replace('"1.0"', f'"1.0" encoding="{charset}"', 1).encode(charset)
    (found,) = parse(declared, "text/xml", URL).articles
    assert found.title == word
    if charset != "utf-16":
        (found,) = parse(document.encode(charset), f"application/xml; charset={charset}", URL).articles
        assert found.title == word


def test_scripts_are_removed():
    evil = "&lt;script&gt;alert(1)&lt;/script&gt;ok&lt;img src=x onerror=alert(2)&gt;"
    (found,) = parse(rss(f"<item><link>javascript:alert(3)</link><title>{evil}</title></item>"), "", URL).articles
    assert (found.title, found.link) == ("ok", "")


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (b"", "empty"),
        (b"<html><body>hello</body></html>", "an HTML page without a link to a feed"),
        (b'{"a": 1}', "not a JSON Feed"),
        (b"just text", "neither RSS nor Atom"),
        (b"<opml><body/></opml>", "neither RSS nor Atom"),
    ],
)
def test_document_that_is_not_a_feed_raises_the_reason(document, reason):
    with pytest.raises(NotAFeed, match=reason):
        parse(document, "", URL)


@pytest.mark.parametrize(
    "written",
    ["Thu, 01 Jan 2026 12:00:00 GMT", "Thu, 1 Jan 26 07:00:00 EST", "01 Jan 2026 12:00 +0000", "2026-01-01T12:00:00Z",
     "2026-01-01 12:00:00", "2026-01-01T13:00:00.000+01:00"],
)  # fmt: skip
def test_dates_are_parsed(written):
    assert parse_date(written) == NOON


@pytest.mark.parametrize(
    "written",
    [
        "",
        "yesterday",
        "0000-00-00",
        "Mon, 01 Jan 0001 00:00:00 +0000",
        "Thu, 01 Jan 1900 00:00:00 GMT",
        "9999-12-31T00:00:00Z",
    ],
)
def test_invalid_date_is_none(written):
    assert parse_date(written) is None


TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc", "Cn", "Co"]), min_size=1, max_size=30)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(TEXT, TEXT, TEXT, st.integers(1, 4_000_000_000)), max_size=5))
def test_xml_parser_agrees_with_the_lenient_one(items):
    document = _write_rss(items)
    assert parse_xml.parse_xml_feed(document, "", URL) is not None
    decoded = [(*map(_undo_double_decoding, texts), date) for *texts, date in items]
    expected = parse_xml.parse_xml_feed(_write_rss(decoded), "", URL)
    assume(expected is not None)  # decoded text may be invalid XML
    assert expected.articles == parse_lenient.parse_any_feed(document, "", URL).articles


def _write_rss(items):
    from xml.sax.saxutils import escape

    return rss(*(item(escape(guid), escape(title), date, escape(text)) for guid, title, text, date in items))


def _undo_double_decoding(text):
    """Undo that feedparser decodes text that looks like UTF-8 encoded twice."""
    try:
        return text.encode("iso-8859-1").decode("utf-8")
    except UnicodeError:
        return text


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=300), st.sampled_from(sorted(DOCUMENTS)), st.integers(0, 2_000))
def test_no_document_crashes_the_parser(junk, name, place):
    document = DOCUMENTS[name].encode()
    for one in (junk, document[:place] + junk + document[place:]):
        with suppress(NotAFeed):
            parse(one, "", URL)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from("id url title content_text content_html language summary".split()), st.text()))
def test_any_text_of_a_feed_can_be_stored(told):
    told = {name: value + "\ud800\x00" for name, value in told.items()}
    found = parse(
        json.dumps({**told, "items": [{**told, "tags": [*told.values()], "author": {"name": "\udfff"}}]}).encode(),
        "",
        URL,
    )
    text = repr(found.title + found.lang) + json.dumps(astuple(found), ensure_ascii=False)
    assert b"\x00" not in text.encode("utf-8")


def real_documents():
    with zipfile.ZipFile(shared("feeds.zip")) as archive:
        for name in archive.namelist():
            yield name, archive.read(name)


@pytest.mark.real_data
def test_every_real_document_has_articles():
    for name, document in real_documents():
        found = parse(document, "", URL)
        assert found.articles, name
        assert any(one.link or one.title or one.text for one in found.articles), name


@pytest.mark.real_data
def test_parsers_agree_on_real_documents():
    """Except for fractions of seconds, dates with slashes, mail addresses of authors, and which text is used."""
    fields = {"guid": 1.0, "title": 1.0, "link": 0.99, "text": 0.97, "published_at": 0.99, "tags": 0.99}
    counted, agreed = 0, dict.fromkeys(fields, 0)
    for _, document in real_documents():
        quick = parse_xml.parse_xml_feed(document.lstrip(), "", URL)
        if quick is not None and len(document) < 60_000:  # the lenient one is slow
            slow = parse_lenient.parse_any_feed(document, "", URL)
            assert (quick.title, quick.lang, len(quick.articles)) == (slow.title, slow.lang, len(slow.articles))
            for one, other in zip(map(_round_time, quick.articles), slow.articles, strict=True):
                counted += 1
                for field in fields:
                    agreed[field] += getattr(one, field) == getattr(other, field)
    assert counted > 1_000
    assert {field: agreed[field] / counted >= share for field, share in fields.items()} == dict.fromkeys(fields, True)


def _round_time(article):
    at = article.published_at
    return article if at is None else replace(article, published_at=float(int(at)))


@settings(max_examples=200, deadline=None)
@given(
    st.datetimes(datetime(1960, 1, 1), datetime(2120, 1, 1)),
    st.sampled_from(["GMT", "UTC", "+0000", "-0730", "+2500", "EST"]),
    st.booleans(),
)
def test_fast_date_parser_agrees_with_the_general_one(at, zone, with_day):
    written = at.strftime(f"{'%a, ' if with_day else ''}%d %b %Y %H:%M:%S {zone}")
    assert parse_date(written) == parse_any_date(written)


def test_date_with_slashes_is_year_month_day():
    assert parse_date("2026/1/1 12:00:00") == NOON
    assert parse_date("2026/13/1 12:00:00") is None


SPOILT = st.sampled_from(
    ["&", "& ", "&amp;", "&nbsp;", "&uuml;", "&#233;", "<![CDATA[a & b]]>", "<!-- & -->", "x", "é", " "]
)


@settings(max_examples=80, deadline=None)
@given(st.lists(SPOILT, min_size=1, max_size=8).map("".join), st.sampled_from(["utf-8", "iso-8859-1", "windows-1252"]))
def test_ampersands_and_encodings_are_parsed_as_by_the_lenient_parser(text, charset):
    assume(not re.search(r"&[xé]", text))  # feedparser makes an entity of it: it adds a semicolon that is not there
    told = f"<guid isPermaLink='false'>1</guid><title>t</title><description>{text}.</description>"
    document = rss(f"<item>{told}</item>").decode()
    declared = document.replace('"1.0"', f'"1.0" encoding="{charset}"', 1).encode(charset)
    (quick,) = parse_xml.parse_xml_feed(declared, "", URL).articles
    assert (replace(quick, text=_undo_double_decoding(quick.text)),) == parse_lenient.parse_any_feed(
        declared, "", URL
    ).articles


def test_contradicting_encodings_are_left_to_the_lenient_parser():
    document = rss("é").decode().replace('"1.0"', '"1.0" encoding="iso-8859-1"', 1)
    assert parse_xml.parse_xml_feed(document.encode("iso-8859-1"), "utf-8", URL) is None
    assert (
        parse_xml.parse_xml_feed(document.encode("utf-8").replace(b"\xc3\xa9", b"\xc3\x81\x81"), "", URL) is None
    )  # a control
    assert parse_xml.parse_xml_feed(document.encode("utf-16"), "", URL) is None
    assert parse_xml.parse_xml_feed(document.encode("iso-8859-1"), "", URL).articles[0].guid == "é"


def test_feed_links_of_a_page_are_listed_with_comments_last():
    page = b"""<base href="https://b.example/x/"><link rel=alternate type=application/rss+xml title=Comments href=c>
    <link REL="Alternate feed" TYPE="application/atom+xml; charset=utf-8" href="atom.xml"><link rel=stylesheet href=s>
    <link rel=alternate type=text/html href=de><link rel=alternate type=application/feed+json href="javascript:1">"""
    assert find_feed_links(page, URL) == ("https://b.example/x/atom.xml", "https://b.example/x/c")


def test_opml_round_trip():
    feeds = [
        OpmlFeed("https://a.example/f?x=1&y=2", 'A "feed" <b>', "https://a.example/"),
        OpmlFeed("http://b.example/", "B"),
    ]
    assert read_opml(write_opml(feeds)) == feeds


def test_opml_folders_are_searched():
    document = b"""<opml version="1.0"><body><outline text="News"><outline text="A" xmlUrl="http://a.example/"/>
    <outline title="B" XMLURL=" http://b.example/ "/><outline text="again" xmlUrl="http://a.example/"/></outline></body></opml>"""
    assert [one[:2] for one in read_opml(document)] == [("http://a.example/", "A"), ("http://b.example/", "B")]


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (b"", "not valid XML"),
        (b"<rss/>", "root element is <rss>, not <opml>"),
        (b'<!DOCTYPE o [<!ENTITY a "b">]><opml>&a;</opml>', "declares entities"),
        (b'<!DOCTYPE o [<!ENTITY a SYSTEM "file:///etc/passwd">]><opml>&a;</opml>', "declares entities"),
        (b"<!DOCTYPE o [<!ATTLIST a b CDATA 'c'>]><opml><a/></opml>", "declares entities or attributes"),
        (b"<opml>" + b"<o/>" * 2_000_000 + b"</opml>", "more than 50,000 elements"),
        (b"<opml>" + b"<o>" * 2_000_000, "more than 50,000 elements"),
        (
            b"<opml><o " + b"".join(b"a%d='' " % number for number in range(500_000)) + b"/></opml>",
            "larger than 256 KB",
        ),
        (b"<opml><!--" + b"a" * 8_000_000 + b"--></opml>", "larger than 256 KB"),
    ],
    ids=range(9),
)
def test_invalid_opml_is_rejected_with_the_reason_and_little_work(document, reason):
    started = time.thread_time()
    with pytest.raises(InputError, match=reason):
        read_opml(document)
    assert time.thread_time() - started < 0.5  # with a tree: 2 s
