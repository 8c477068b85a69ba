"""Parse broken XML, unusual encodings and old formats with feedparser."""

from __future__ import annotations

from calendar import timegm
from io import BytesIO
from typing import Any

import feedparser

from tidings.crawl.article import MAX_ARTICLES, MAX_LANG, MAX_TITLE, NotAFeed, ParsedFeed
from tidings.crawl.normalize import RawArticle, clean_article, parse_ttl, to_single_line, web_link

_PLAIN = "text/plain"


def parse_any_feed(document: bytes, content_type: str, url: str) -> ParsedFeed:
    """Return the feed. Raises NotAFeed with the reason."""
    # As a file: feedparser would fetch bytes that look like a URL. `clean_article` sanitizes.
    headers = {"content-type": content_type} if content_type else {}
    parsed = feedparser.parse(
        BytesIO(document), response_headers=headers, sanitize_html=False, resolve_relative_uris=False
    )
    if not parsed.entries and not parsed.version:
        raise NotAFeed(f"neither RSS nor Atom nor JSON Feed{_format_error(parsed)}")
    if not parsed.entries and parsed.bozo:
        raise NotAFeed(f"broken before the first article{_format_error(parsed)}")
    site = web_link(_text(parsed.feed, "link"), url)
    return ParsedFeed(
        title=to_single_line(_text(parsed.feed, "title"), MAX_TITLE, _is_html(parsed.feed.get("title_detail"))),
        site=site,
        articles=tuple(clean_article(_raw(entry), site or url) for entry in parsed.entries[:MAX_ARTICLES]),
        ttl_s=parse_ttl(_text(parsed.feed, "ttl")),
        lang=to_single_line(_text(parsed.feed, "language"), MAX_LANG, False),
    )


def _format_error(parsed: Any) -> str:
    error = parsed.get("bozo_exception")
    return f" ({str(error).strip()[:120]})" if error else ""


def _is_html(detail: Any) -> bool:
    return detail is None or detail.get("type") != _PLAIN or "<" not in detail.get("value", "")


def _text(parsed: Any, name: str) -> str:
    return str(parsed.get(name) or "")


def _raw(entry: Any) -> RawArticle:
    content = (entry.get("content") or [entry.get("summary_detail") or {}])[0]
    date = entry.get("published_parsed" if "published_parsed" in entry else "updated_parsed")
    return RawArticle(
        guid=_text(entry, "id"),
        link=_text(entry, "link"),
        title=_text(entry, "title"),
        text=content.get("value") or _text(entry, "summary"),
        author=_text(entry, "author"),
        published_at=_seconds(date),
        tags=[str(tag.get("label") or tag.get("term") or "") for tag in entry.get("tags", [])],
    )


def _seconds(date: Any) -> float | None:
    try:
        return None if date is None else float(timegm(date))
    except (ValueError, OverflowError):
        return None
