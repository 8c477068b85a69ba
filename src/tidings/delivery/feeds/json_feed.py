"""JSON Feed 1.1."""

from __future__ import annotations

import json
from typing import Any

from tidings.delivery.feeds.model import FeedDocument, FeedEntry

MEDIA_TYPE = "application/feed+json"


def write_json_feed(document: FeedDocument) -> bytes:
    """Return the document as JSON Feed."""
    feed = {
        "version": "https://jsonfeed.org/version/1.1",
        "title": document.title,
        "home_page_url": document.home,
        "feed_url": document.address,
        "items": [_to_item(entry) for entry in document.entries],
    }
    return json.dumps(feed, ensure_ascii=False).encode()


def _to_item(entry: FeedEntry) -> dict[str, Any]:
    item: dict[str, Any] = {
        "id": entry.id,
        "title": entry.title,
        "content_text": entry.text,
        "date_published": entry.published.isoformat(),
    }
    if entry.link:
        item["url"] = entry.link
    if entry.author:
        item["authors"] = [{"name": entry.author}]
    if entry.tags:
        item["tags"] = list(entry.tags)
    return item
