"""Parse JSON Feed 1.0 and 1.1. Fields of the wrong type are ignored."""

from __future__ import annotations

import json
from typing import Any

from tidings.crawl.article import MAX_LANG, MAX_TITLE, NotAFeed, ParsedFeed
from tidings.crawl.normalize import WEB, RawArticle, clean_articles, explain_no_posts, to_single_line, web_link


def parse_json_feed(document: bytes, url: str) -> ParsedFeed:
    """Return the feed. Raises NotAFeed with the reason."""
    try:
        feed = json.loads(document.decode("utf-8-sig", "replace"))
    except (ValueError, RecursionError) as error:
        raise NotAFeed(f"invalid JSON ({str(error)[:80]})") from None
    if not isinstance(feed, dict) or not isinstance(feed.get("items"), list):
        raise NotAFeed("JSON without a list of items, not a JSON Feed")
    site = web_link(_text(feed, "home_page_url"), url)
    articles = clean_articles((_item(item) for item in feed["items"] if isinstance(item, dict)), url)
    return ParsedFeed(
        title=to_single_line(_text(feed, "title"), MAX_TITLE, False),
        site=site,
        articles=articles,
        lang=to_single_line(_text(feed, "language"), MAX_LANG, False),
        note=explain_no_posts(articles, "this JSON Feed is empty", len(feed["items"])),
    )


def _item(item: dict[str, Any]) -> RawArticle:
    plain, identity = _text(item, "content_text"), _text(item, "id")
    tags = item.get("tags")
    return RawArticle(
        guid=identity,
        link=_text(item, "url") or _text(item, "external_url") or (identity if identity.startswith(WEB) else ""),
        title=_text(item, "title"),
        text=plain or _text(item, "content_html") or _text(item, "summary"),
        author=_author(item),
        dates=(_text(item, "date_published"), _text(item, "date_modified")),
        tags=[tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else [],
        is_html=not plain,
        title_is_html=False,
    )


def _author(item: dict[str, Any]) -> str:
    authors = item.get("authors")
    listed = authors if isinstance(authors, list) else [item.get("author")]
    return next((name for author in listed if isinstance(author, dict) and (name := _text(author, "name"))), "")


def _text(feed: dict[str, Any], name: str) -> str:
    """Return a text, or a number as text (some feeds have numbers as ids)."""
    value = feed.get(name)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    return str(value)
