"""Text from outside is processed in linear time: repetitions that make a pattern backtrack cost no more than others."""

from __future__ import annotations

import json
import time
from contextlib import suppress

import pytest

from tidings.cli.output import safe_json, to_line
from tidings.cli.summary import count_reasons
from tidings.crawl import parse_json_feed, parse_xml
from tidings.crawl.article import NotAFeed
from tidings.crawl.dates import parse_any_date, parse_date
from tidings.crawl.decode import decode_document, repair_ampersands
from tidings.crawl.discover import find_feed_links
from tidings.crawl.identity import normalize_any_link, normalize_link
from tidings.crawl.mojibake import repair_mojibake
from tidings.crawl.normalize import RawArticle, clean_article, looks_like_html, to_plain_text, web_link
from tidings.crawl.opml import read_opml
from tidings.crawl.parse import charset_of, parse
from tidings.crawl.schedule import freshness_s
from tidings.delivery.feeds.model import parse_post_time, replace_illegal_xml
from tidings.errors import InputError
from tidings.net.retry_after import parse_retry_after
from tidings.net.urls import mask_userinfo, normalize_url
from tidings.query.geo.region import parse_region_word
from tidings.query.parse import parse as parse_query
from tidings.schemas import RejectedSubscription
from tidings.text import reference_analyzer, sanitize
from tidings.web.compression import accepts_gzip

URL = "https://a.example/feed"
PIECES = (
    "a@", "a@ (", " ", "\t", "\n", "(", "((", ")", "<", "<a ", "</p>", "<!--", "<![CDATA[", "<?", "<!doctype ", "&",
    "&#", "&#x", "&amp", "&amp;", "'", '"', "1", "1,", ".", "-", "+", "/", "//", "\\", ":", "?", "#", "%", "=", "%41",
    "[", "{", "a", "a.", "http://", "https://a", "www.", "encoding=", "max-age=", "Mon, ", "01 Jan ", "2026-", "Ã",
    "â€", "\u200b", "\u200d", "\U000e0041", "\x1b[", "\x1b]", "\x00", "\ud800", "😀", "é",
)  # fmt: skip
SIZES = (1_000, 4_000, 20_000)
MAX_CPU_S = 0.6
"""Quadratic patterns take seconds for the largest size, cubic ones for the second; linear ones take milliseconds."""


def _rss(text):
    return f"<rss><channel><item><author>{text}</author><title>{text}</title></item></channel></rss>".encode(
        "utf-8", "replace"
    )


FUNCTIONS = {
    "an article": lambda text: clean_article(RawArticle(*[text] * 5, dates=[text, text], tags=[text, text]), URL),
    "an HTML text": lambda text: to_plain_text(text, 100_000, True),
    "an RSS document": lambda text: parse_xml.parse_xml_feed(_rss(text), "", URL),
    "the start of a document": lambda text: decode_document(f"<?xml {text}".encode("utf-8", "replace"), "utf-8"),
    "a page": lambda text: parse(f"<html>{text}".encode("utf-8", "replace"), text, URL),
    "links of a page": lambda text: find_feed_links(text.encode("utf-8", "replace"), URL),
    "a JSON Feed": lambda text: parse_json_feed.parse_json_feed(
        json.dumps({"items": [{"id": text, "content_html": text}]}).encode(), URL
    ),
    "OPML": lambda text: read_opml(f'<opml><outline xmlUrl="{text}"/></opml>'.encode("utf-8", "replace")),
    "a date": parse_date,
    "any date": parse_any_date,
    "the time of a post": parse_post_time,
    "ampersands": repair_ampersands,
    "mojibake": repair_mojibake,
    "untyped text": looks_like_html,
    "a relative link": lambda text: web_link(text, URL),
    "an absolute link": lambda text: sanitize.clean_link(f"https://{text}"),
    "a key": lambda text: (normalize_link(f"https://{text}"), normalize_any_link(text)),
    "a charset": charset_of,
    "cache headers": lambda text: freshness_s(text, text, text),
    "retry after": lambda text: parse_retry_after(text, 0.0),
    "plain text": sanitize.clean_text,
    "XML text": replace_illegal_xml,
    "an address": normalize_url,
    "a password": mask_userinfo,
    "a query": lambda text: parse_query(text[:10_000]),
    "a region": lambda text: parse_region_word(f"near:{text}", 0),
    "words": lambda text: list(reference_analyzer.tokenize(reference_analyzer.decode_entities(text))),
    "accepted encodings": lambda text: accepts_gzip(f"gzip;q=0.{text}"),
    "a line of the terminal": lambda text: (to_line(text, 80), safe_json(text)),
    "a reason": lambda text: count_reasons([RejectedSubscription(1, 1, text)]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_repetitions_are_processed_in_linear_time(name):
    for piece in PIECES:
        for ending in ("", "!"):
            for size in SIZES:
                text = piece * (size // len(piece)) + ending
                attempts = (_cpu_s(FUNCTIONS[name], text) for _ in range(3))  # a garbage collection may take as long
                assert any(spent_s < MAX_CPU_S for spent_s in attempts), (name, piece, size)


def _cpu_s(function, text):
    start = time.thread_time()
    with suppress(InputError, NotAFeed):
        function(text)
    return time.thread_time() - start
