"""Parse broken XML, unusual encodings and old formats with feedparser."""

from __future__ import annotations

from calendar import timegm
from collections import defaultdict
from io import BytesIO
from typing import Any

import feedparser

from tidings.crawl.article import MAX_LANG, MAX_TITLE, NotAFeed, ParsedFeed
from tidings.crawl.normalize import (
    WEB,
    RawArticle,
    clean_articles,
    explain_no_posts,
    parse_ttl,
    to_single_line,
    web_link,
)

_PLAIN = "text/plain"
_DATES = ("published", "updated", "created")
_FORMATS = defaultdict(lambda: "feed", rss="RSS channel", ato="Atom feed", cdf="CDF channel")


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
    articles = clean_articles((_raw(entry, site or url) for entry in parsed.entries), site or url)
    return ParsedFeed(
        title=to_single_line(_text(parsed.feed, "title"), MAX_TITLE, _is_html(parsed.feed.get("title_detail"))),
        site=site,
        articles=articles,
        ttl_s=parse_ttl(_text(parsed.feed, "ttl")),
        lang=to_single_line(_text(parsed.feed, "language"), MAX_LANG, False),
        note=explain_no_posts(articles, f"this {_FORMATS[parsed.version[:3]]} is empty", len(parsed.entries)),
    )


def _format_error(parsed: Any) -> str:
    error = parsed.get("bozo_exception")
    return f" ({str(error).strip()[:120]})" if error else ""


def _is_html(detail: Any) -> bool:
    return detail is None or detail.get("type") != _PLAIN or "<" not in detail.get("value", "")


def _text(parsed: Any, name: str) -> str:
    return str(parsed.get(name) or "")


def _raw(entry: Any, base: str) -> RawArticle:
    content = (entry.get("content") or [entry.get("summary_detail") or {}])[0]
    identity = _text(entry, "id")
    return RawArticle(
        guid=identity,
        link=_text(entry, "link") or (identity if identity.startswith(WEB) and entry.get("guidislink", True) else ""),
        title=_text(entry, "title"),
        text=content.get("value") or _text(entry, "summary"),
        author=_text(entry, "author"),
        dates=_dates(entry),
        tags=[str(tag.get("label") or tag.get("term") or "") for tag in entry.get("tags", [])],
        base=web_link(_text(entry.get("title_detail") or {}, "base"), base),
    )


def _dates(entry: Any) -> list[str | float]:
    """Return the dates in order of preference, each as feedparser parsed it and as it is written."""
    dates: list[str | float] = []
    for name in _DATES:
        if f"{name}_parsed" in entry and (at := _seconds(entry[f"{name}_parsed"])) is not None:
            dates.append(at)
        if name in entry:
            dates.append(str(entry[name] or ""))
    return dates


def _seconds(date: Any) -> float | None:
    try:
        return None if date is None else float(timegm(date))
    except (ValueError, OverflowError):
        return None
