"""Dialects of feeds: unusual names, dates, places of items, types, encodings; and feeds without items."""

from __future__ import annotations

import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.data import shared

from tidings.crawl.article import NotAFeed
from tidings.crawl.dates import parse_date
from tidings.crawl.mojibake import repair_mojibake
from tidings.crawl.parse import parse
from tidings.testing.feed_servers import item, rss

URL = "https://a.example/dir/feed"
RDF = '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/">{}</rdf:RDF>'
RDF_ITEM = '<item rdf:about="1"><title>A</title><link>https://a.example/x</link></item>'
ATOM = '<feed xmlns="http://www.w3.org/2005/Atom"><title>T</title>{}</feed>'
NOON = 1_662_197_831.0  # 2022-09-03 09:37:11 UTC
BARE_ITEM = '<item><guid isPermaLink="false">1</guid></item>'
BROKEN_XML = "<x>&</rss>"  # sends a document to the lenient parser


def only(document, url=URL):
    (article,) = parse(document.encode() if isinstance(document, str) else document, "", url).articles
    return article


@pytest.mark.parametrize(
    "written",
    ["Sat, 03 Sept 2022 09:37:11 GMT", "2022-09-03 09:37:11 +0000 UTC", "2022-09-03 11:37:11.5 +0200 CEST",
     "Sat, Sept 3 2022 09:37:11", "Sat Sept 3 2022 09:37:11 GMT", "September 3 2022, 9:37:11",
     "2022-09-03 09:37:11 UTC", "Sat, 3 September 2022 09:37:11 Z",
     "2022-9-3 9:37:11", "  2022-09-03\n09:37:11Z ",
     "Sat 03 Sep 2022 11:37:11 +02:00", "Sat, 03 Sep 2022 09:37:11 GMT+00:00", "2022-09-03T11:37:11 CEST",
     "September 3, 2022 9:37:11 AM", "Sat, 03-Sep-2022 21:37:11 +1200", "2022-09-03 05:37:11 EDT"],
)  # fmt: skip
def test_common_dialects_of_dates_are_parsed(written):
    assert parse_date(written) == NOON


NAMESPACES = 'xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:dcterms="http://purl.org/dc/terms/"'
DATE = "2022-09-03 09:37:11"


def dated_rss(dates):
    return f"<rss {NAMESPACES}><channel><item><title>A</title>{dates}</item></channel></rss>"


def dated_atom(dates):
    return ATOM.replace("<feed", f"<feed {NAMESPACES}").format(f"<entry><title>A</title>{dates}</entry>")


@pytest.mark.parametrize(
    "document",
    [
        dated_rss(f"<pubDate>foo</pubDate><dc:date>{DATE}</dc:date>"),
        dated_rss(f"<pubDate>foo</pubDate><dc:date>{DATE}</dc:date>") + BROKEN_XML,
        dated_atom(f"<published>foo</published><updated>{DATE}</updated>"),
        dated_atom(f"<published>foo</published><updated>{DATE}</updated>") + BROKEN_XML,
        '{"items": [{"id": "1", "date_published": "foo", "date_modified": "2022-09-03 09:37:11"}]}',
    ],
)
def test_the_first_valid_date_counts(document):
    assert only(document).published_at == NOON


@pytest.mark.parametrize("name", ["pubDate", "dc:date", "dcterms:created", "dcterms:issued", "dcterms:modified",
                                  "published", "date"])  # fmt: skip
def test_a_date_of_rss_has_one_of_several_names(name):
    assert only(dated_rss(f"<{name}>{DATE}</{name}>")).published_at == NOON


@pytest.mark.parametrize("name", ["published", "issued", "pubDate", "updated", "modified", "dc:date", "dcterms:issued"])
def test_a_date_of_atom_has_one_of_several_names(name):
    assert only(dated_atom(f"<{name}>{DATE}</{name}>")).published_at == NOON


def test_midnight_may_be_the_end_of_a_day():
    midnight = parse_date("2022-09-03T00:00:00Z")
    assert parse_date("Fri, 02 Sep 2022 24:00:00 GMT") == parse_date("Sept 3 2022") == midnight
    assert parse_date("Fri, 02 Sep 2022 24:00:01 GMT") is None


def test_seconds_of_one_digit_are_parsed():
    assert parse_date("Sat, 03 Sep 2022 12:35:9 +0000") == parse_date("2022-09-03 12:35:9") == 1_662_208_509.0


@pytest.mark.parametrize("name", ["pubdate", "PubDate", "PUBDATE"])
@pytest.mark.parametrize("rest", ["", BROKEN_XML])
def test_names_of_elements_have_any_case(name, rest):
    article = only(rss(f"<item><GUID>1</GUID><{name}>Sat, 03 Sept 2022 09:37:11 GMT</{name}></item>").decode() + rest)
    assert (article.guid, article.published_at) == ("1", NOON)


@pytest.mark.parametrize("namespace", ["", "http://backend.userland.com/RSS2"])
@pytest.mark.parametrize("name", ["guid", "GUID"])
def test_a_web_address_as_guid_is_the_link_of_an_item_without_one(namespace, name):
    guid = f"<{name}>https://a.example/1</{name}>"
    document = f'<rss xmlns="{namespace}"><channel><item>{guid}<title>A</title></item></channel></rss>'
    assert only(document).link == "https://a.example/1"
    assert only(document.replace(f"<{name}>", f'<{name} isPermaLink="false">')).link == ""


@pytest.mark.parametrize("template", ["<channel><title>T</title>{}</channel>", "<channel/>{}", "{}<channel/>"])
def test_items_of_rdf_are_found_inside_and_outside_the_channel(template):
    assert only(RDF.format(template.format(RDF_ITEM))).link == "https://a.example/x"


def test_items_of_rss_are_found_next_to_the_channel():
    assert only("<rss><channel><title>T</title></channel><item><title>A</title></item></rss>").title == "A"


@pytest.mark.parametrize("rest", ["", BROKEN_XML])
def test_a_web_address_as_id_is_the_link_of_an_entry_without_one(rest):
    entry = "<entry><id>https://a.example/?p=1</id><title>A</title></entry>"
    assert only(ATOM.format(entry) + rest).link == "https://a.example/?p=1"
    assert only(ATOM.format(entry.replace("https:", "urn:")) + rest).link == ""


def test_a_web_address_as_id_is_the_link_of_a_json_item():
    assert only('{"items": [{"id": "https://a.example/1", "title": "A"}]}').link == "https://a.example/1"


@pytest.mark.parametrize(
    ("declared", "content", "expected"),
    [
        ("", "<![CDATA[<p>Tom &amp; <b>Jerry</b></p>]]>", "Tom & Jerry"),
        ("", "a &lt;br&gt; b", "a\nb"),
        ("", "<![CDATA[<section>Tom</section><section>Jerry</section>]]>", "Tom\nJerry"),
        ("", "<![CDATA[<article>Tom</article>]]>", "Tom"),
        ("", "Tom &amp;amp; Jerry", "Tom & Jerry"),
        ("", "1 &lt; 2 &amp; 3 > 2", "1 < 2 & 3 > 2"),
        ("", "use Vec&lt;T&gt;", "use Vec<T>"),
        (' type="text"', "&lt;p&gt;is a tag&lt;/p&gt;", "<p>is a tag</p>"),
        (' type="html"', "&lt;p&gt;is HTML&lt;/p&gt;", "is HTML"),
    ],
)
def test_text_without_a_type_is_html_if_it_looks_like_html(declared, content, expected):
    article = only(ATOM.format(f"<entry><id>1</id><title>A</title><content{declared}>{content}</content></entry>"))
    assert article.text == expected


@pytest.mark.parametrize("rest", ["", BROKEN_XML])
def test_links_are_relative_to_the_xml_base_of_their_item(rest):
    places = (
        '<rss xml:base="{}"><channel><item>',
        '<rss><channel xml:base="{}"><item>',
        '<rss><channel><item xml:base="{}">',
    )
    for place in places if not rest else places[2:]:
        start = place.format("https://b.example/posts/")
        assert only(f"{start}<title>A</title><link>x</link></item></channel></rss>{rest}").link == (
            "https://b.example/posts/x"
        )


@pytest.mark.parametrize(
    ("written", "author"),
    [
        ("ann@e.org (Ann Lee)", "Ann Lee"),
        ("ann@e.org (Ann (NYC))", "Ann (NYC)"),
        ("Ann (NYC)", "Ann (NYC)"),
        ("ann@e.org", "ann@e.org"),
        ("ann@e.org ()", "ann@e.org ()"),
        ("a@" * 1_600, ("a@" * 1_600)[:299] + "…"),
    ],
)
def test_the_author_is_the_name_after_a_mail_address(written, author):
    assert only(rss(f"<item><guid>1</guid><author>{written}</author></item>")).author == author


def test_items_without_any_content_are_dropped():
    assert [
        one.title
        for one in parse(rss("<item/>", item("1", title="A"), "<item><title> </title></item>"), "", URL).articles
    ] == ["A"]


@pytest.mark.parametrize(
    ("document", "note"),
    [
        ("<rss><channel><title>T</title></channel></rss>", "no items: this RSS channel is empty"),
        (RDF.format("<channel><title>T</title></channel>"), "no items: this RDF document is empty"),
        (ATOM.format(""), "no items: this Atom feed is empty"),
        ('{"items": []}', "no items: this JSON Feed is empty"),
        ("<rss><channel><item/><item/></channel></rss>", "no items: all 2 items are empty"),
    ],
)
def test_a_feed_without_items_has_the_reason(document, note):
    found = parse(document.encode(), "", URL)
    assert (found.articles, found.note) == ((), note)
    assert parse(rss(item("1")), "", URL).note == ""


@pytest.mark.parametrize(
    "document",
    [
        "<rss><channel><item><guid>1</guid></item><item><guid>2</guid><pubDate>x</pubDate></item></channel></rss>",
        f"<rss><channel>{2 * BARE_ITEM}</channel></rss>{BROKEN_XML}",
        ATOM.format("<entry><id>1</id></entry><entry><id>2</id></entry>"),
        '{"items": [{"id": 1}, {"id": 2}]}',
    ],
)
def test_a_feed_whose_items_have_only_an_id_has_the_reason(document):
    found = parse(document.encode(), "", URL)
    assert found.note == "no posts: all 2 items have neither text nor title nor link"


@pytest.mark.parametrize(
    ("broken", "text"),
    [
        ("donâ€™t", "don’t"),
        ("â€œquotedâ€\x9d â€” dash", "“quoted” — dash"),
        ("An exposÃ© of nooks", "An exposé of nooks"),
        ("SÃ£o Paulo, 20Â°C", "São Paulo, 20°C"),
        ("ÐŸÑ€Ð¸Ð²ÐµÑ‚", "Привет"),
        ("æ—¥æœ¬", "日本"),
        ("ðŸ˜€", "😀"),
        ("Ã©Ã¨".encode().decode("cp1252"), "éè"),  # encoded three times
    ],
)  # fmt: skip
def test_text_that_was_encoded_twice_is_repaired(broken, text):
    assert repair_mojibake(broken) == text
    assert only(rss(item("1", title=broken.replace("\x9d", "&#157;")))).title == text


@pytest.mark.parametrize("link", ["https://h.example/cafÃ©", "https://h.example/café"])
def test_a_link_that_was_encoded_twice_is_repaired(link):
    assert only(rss(f"<item><guid>1</guid><link>{link}</link></item>")).link == "https://h.example/caf%C3%A9"


@pytest.mark.parametrize(
    "text",
    ["", "plain", "don’t", "é", "Ã", "IRMÃ", "“IRMÔ", "MANHÃ\xa0É", "Â", "naïve café", "Привет", "日本語", "x² ± 3 °C",
     "©®™", "PÂTÉ", "â€™ is broken ’", "Ünïcödé", "£5 – €6", "Việt Nam", "ÃO", "Mötley Crüe", "🏴󠁧󠁢󠁥󠁮󠁧󠁿"],
)  # fmt: skip
def test_correct_text_is_never_repaired(text):
    assert repair_mojibake(text) == text


@settings(max_examples=300, deadline=None)
@given(
    st.text(st.characters(codec="utf-8", min_codepoint=0x20, exclude_categories=["Cc", "Cs", "Cn", "Co"]), max_size=40)
)
def test_repair_returns_the_text_or_what_it_was_encoded_from(text):
    assert repair_mojibake(text) == text or all("\x20" <= character <= "\u2122" for character in text)
    encoded = text.encode().decode("latin-1")
    assert repair_mojibake(encoded) in (text, encoded, repair_mojibake(text))


@pytest.mark.real_data
def test_real_documents_have_no_double_encoding_and_no_empty_articles():
    counted = 0
    with zipfile.ZipFile(shared("feeds.zip")) as archive:
        for name in archive.namelist():
            try:
                found = parse(archive.read(name), "", URL)
            except NotAFeed as error:
                pytest.fail(f"{name}: {error.reason}")
            assert found.articles, name
            for article in found.articles:
                counted += 1
                assert article.guid or article.link or article.title or article.text, name
                assert "â€" not in article.title + article.text, name
    assert counted > 5_000
