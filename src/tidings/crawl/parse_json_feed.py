"""JSON Feed 1.0 and 1.1. What is of another type than it should be is left out: a feed is not lost for it."""

from __future__ import annotations

import json
from typing import Any

from tidings.crawl.article import MAX_ARTICLES, MAX_LANG, MAX_TITLE, Document, NotAFeed
from tidings.crawl.normalize import Raw, cleaned, one_line, web_link


def read(document: bytes, url: str) -> Document:
    """The feed; NotAFeed with the reason where there is none."""
    try:
        found = json.loads(document.decode("utf-8-sig", "replace"))
    except (ValueError, RecursionError) as error:
        raise NotAFeed(f"it begins like JSON and is none ({str(error)[:80]})") from None
    if not isinstance(found, dict) or not isinstance(found.get("items"), list):
        raise NotAFeed("it is JSON without a list of items, so it is no JSON Feed")
    site = web_link(_text(found, "home_page_url"), url)
    return Document(
        title=one_line(_text(found, "title"), MAX_TITLE, False),
        site=site,
        articles=tuple(cleaned(_item(item), url) for item in found["items"][:MAX_ARTICLES] if isinstance(item, dict)),
        lang=one_line(_text(found, "language"), MAX_LANG, False),
    )


def _item(item: dict[str, Any]) -> Raw:
    plain = _text(item, "content_text")
    tags = item.get("tags")
    return Raw(
        guid=_text(item, "id"),
        link=_text(item, "url") or _text(item, "external_url"),
        title=_text(item, "title"),
        text=plain or _text(item, "content_html") or _text(item, "summary"),
        author=_author(item),
        published=_text(item, "date_published") or _text(item, "date_modified"),
        tags=[tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else [],
        is_html=not plain,
        title_is_html=False,
    )


def _author(item: dict[str, Any]) -> str:
    authors = item.get("authors")
    listed = authors if isinstance(authors, list) else [item.get("author")]
    return next((name for one in listed if isinstance(one, dict) and (name := _text(one, "name"))), "")


def _text(found: dict[str, Any], name: str) -> str:
    """Text, or a number as some write ids."""
    value = found.get(name)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    return str(value)
