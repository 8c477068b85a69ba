"""A document becomes a feed, whatever its format, or says why it is none. It runs in a child (`child.py`)."""

from __future__ import annotations

import re
from email.message import Message

from tidings.crawl import parse_json_feed, parse_lenient, parse_xml
from tidings.crawl.article import Document, NotAFeed
from tidings.crawl.discover import feeds_of

_PAGE = re.compile(rb"<(!doctype\s+html|html|head|body)[\s>]", re.IGNORECASE)
_FEED = re.compile(rb"<(rss|feed|[a-z]+:RDF|RDF|channel|[a-z]+:feed)[\s>]")
_BEFORE = b"\xef\xbb\xbf \t\r\n\x00"
_LOOKED_AT = 2_000


def parse(document: bytes, content_type: str, url: str) -> Document:
    """The feed; NotAFeed with the reason, and for a page the feeds it points to."""
    body = document.lstrip(_BEFORE)
    if not body:
        raise NotAFeed("the document is empty")
    if body[:1] in (b"{", b"["):
        return parse_json_feed.read(body, url)
    head = body[:_LOOKED_AT]
    if _PAGE.search(head) and not _FEED.search(head):
        feeds = feeds_of(body, url)
        raise NotAFeed("it is a page; its feed is elsewhere" if feeds else "it is a page that points to no feed", feeds)
    return parse_xml.read(body, charset_of(content_type), url) or parse_lenient.read(body, content_type, url)


def charset_of(content_type: str) -> str:
    """The charset a Content-Type names, in small letters; empty where it names none."""
    message = Message()
    message["Content-Type"] = content_type.encode("ascii", "ignore").decode()
    return str(message.get_content_charset("") or "")
