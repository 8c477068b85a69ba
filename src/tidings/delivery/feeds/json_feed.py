"""JSON Feed 1.1."""

from __future__ import annotations

import json
from typing import Any

from tidings.delivery.feeds.model import Document, Entry

MEDIA_TYPE = "application/feed+json"


def json_feed(document: Document) -> bytes:
    """The document as JSON Feed."""
    told = {
        "version": "https://jsonfeed.org/version/1.1",
        "title": document.title,
        "home_page_url": document.home,
        "feed_url": document.address,
        "items": [_item(entry) for entry in document.entries],
    }
    return json.dumps(told, ensure_ascii=False).encode()


def _item(entry: Entry) -> dict[str, Any]:
    told: dict[str, Any] = {
        "id": entry.id,
        "title": entry.title,
        "content_text": entry.text,
        "date_published": entry.published.isoformat(),
        "date_modified": entry.arrived.isoformat(),
    }
    if entry.link:
        told["url"] = entry.link
    if entry.author:
        told["authors"] = [{"name": entry.author}]
    if entry.tags:
        told["tags"] = list(entry.tags)
    return told
