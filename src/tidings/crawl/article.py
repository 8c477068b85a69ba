"""Feeds and their articles, independent of the format."""

from __future__ import annotations

from dataclasses import dataclass

MAX_ARTICLES = 10_000  # per document
# characters
MAX_TITLE, MAX_NAME, MAX_TEXT, MAX_ID = 1_000, 300, 100_000, 4_096
MAX_TAGS, MAX_TAG, MAX_LANG = 50, 100, 35


@dataclass(frozen=True, slots=True)
class Article:
    """An article: texts are plain text, the link is an http(s) URL, missing fields are empty or None."""

    guid: str = ""
    link: str = ""
    title: str = ""
    text: str = ""
    author: str = ""
    published_at: float | None = None
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ParsedFeed:
    """A parsed feed. `ttl_s` is the interval of visits that it requests, or 0; `note` is why it gives no posts."""

    title: str
    site: str
    articles: tuple[Article, ...]
    ttl_s: float = 0.0
    lang: str = ""
    note: str = ""


class NotAFeed(Exception):
    """A document that is not a readable feed, with the reason and, for a page, the feeds it links to."""

    def __init__(self, reason: str, feeds: tuple[str, ...] = ()) -> None:
        super().__init__(reason)
        self.reason = reason
        self.feeds = feeds

    def __reduce__(self) -> tuple[type[NotAFeed], tuple[str, tuple[str, ...]]]:
        return NotAFeed, (self.reason, self.feeds)
