"""Parse a document of any feed format. It runs in a child process (`parser_process.py`)."""

from __future__ import annotations

import re
from email.message import Message

from tidings.crawl import parse_json_feed, parse_lenient, parse_xml
from tidings.crawl.article import NotAFeed, ParsedFeed
from tidings.crawl.discover import find_feed_links

_PAGE = re.compile(rb"<(!doctype\s+html|html|head|body)[\s>]", re.IGNORECASE)
_FEED = re.compile(rb"<(rss|feed|[a-z]+:RDF|RDF|channel|[a-z]+:feed)[\s>]")
_LEADING_BYTES = b"\xef\xbb\xbf \t\r\n\x00"
_HEAD_BYTES = 2_000
_MAX_HEADER_CHARACTERS = 1_000


def parse(document: bytes, content_type: str, url: str) -> ParsedFeed:
    """Return the feed. Raises NotAFeed with the reason and, for a page, the feeds it links to."""
    body = document.lstrip(_LEADING_BYTES)
    if not body:
        raise NotAFeed("the document is empty")
    if body[:1] in (b"{", b"["):
        return parse_json_feed.parse_json_feed(body, url)
    head = body[:_HEAD_BYTES]
    if _PAGE.search(head) and not _FEED.search(head):
        feeds = find_feed_links(body, url)
        raise NotAFeed("an HTML page, not a feed" if feeds else "an HTML page without a link to a feed", feeds)
    feed = parse_xml.parse_xml_feed(body, charset_of(content_type), url)
    if feed is not None and feed.articles:
        return feed
    try:
        lenient = parse_lenient.parse_any_feed(body, content_type, url)
    except NotAFeed:
        if feed is None:
            raise
        return feed
    return lenient if feed is None or lenient.articles else feed


def charset_of(content_type: str) -> str:
    """Return the charset of a Content-Type in lower case, or an empty string."""
    message = Message()
    message["Content-Type"] = content_type[:_MAX_HEADER_CHARACTERS].encode("ascii", "ignore").decode()
    return str(message.get_content_charset("") or "")
