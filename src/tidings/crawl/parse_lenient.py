"""Feeds as they are: broken XML, odd encodings, old formats, read by feedparser as feed readers do."""

from __future__ import annotations

from calendar import timegm
from io import BytesIO
from typing import Any

import feedparser

from tidings.crawl.article import MAX_ARTICLES, MAX_LANG, MAX_TITLE, Document, NotAFeed
from tidings.crawl.normalize import Raw, cleaned, one_line, web_link

_PLAIN = "text/plain"


def read(document: bytes, content_type: str, url: str) -> Document:
    """The feed; NotAFeed with the reason where there is none."""
    # As a file, so that bytes that look like an address are not fetched. We clean for ourselves.
    headers = {"content-type": content_type} if content_type else {}
    found = feedparser.parse(
        BytesIO(document), response_headers=headers, sanitize_html=False, resolve_relative_uris=False
    )
    if not found.entries and not found.version:
        raise NotAFeed(f"it is neither RSS nor Atom nor a JSON Feed{_trouble(found)}")
    if not found.entries and found.bozo:
        raise NotAFeed(f"it is broken before its first article{_trouble(found)}")
    site = web_link(_text(found.feed, "link"), url)
    return Document(
        title=one_line(_text(found.feed, "title"), MAX_TITLE, _is_html(found.feed.get("title_detail"))),
        site=site,
        articles=tuple(cleaned(_raw(entry), site or url) for entry in found.entries[:MAX_ARTICLES]),
        ttl_s=_ttl(_text(found.feed, "ttl")),
        lang=one_line(_text(found.feed, "language"), MAX_LANG, False),
    )


def _trouble(found: Any) -> str:
    error = found.get("bozo_exception")
    return f" ({str(error).strip()[:120]})" if error else ""


def _is_html(detail: Any) -> bool:
    return detail is None or detail.get("type") != _PLAIN or "<" not in detail.get("value", "")


def _text(found: Any, name: str) -> str:
    return str(found.get(name) or "")


def _raw(entry: Any) -> Raw:
    told = (entry.get("content") or [entry.get("summary_detail") or {}])[0]
    date = entry.get("published_parsed" if "published_parsed" in entry else "updated_parsed")
    return Raw(
        guid=_text(entry, "id"),
        link=_text(entry, "link"),
        title=_text(entry, "title"),
        text=told.get("value") or _text(entry, "summary"),
        author=_text(entry, "author"),
        published_at=_seconds(date),
        tags=[str(tag.get("label") or tag.get("term") or "") for tag in entry.get("tags", [])],
    )


def _seconds(date: Any) -> float | None:
    try:
        return None if date is None else float(timegm(date))
    except (ValueError, OverflowError):
        return None


def _ttl(minutes: str) -> float:
    return float(minutes) * 60 if minutes.isascii() and minutes.isdigit() and len(minutes) < 9 else 0.0
