"""What a feed says, in our words: its articles, and what it says of itself."""

from __future__ import annotations

from dataclasses import dataclass

MAX_ARTICLES = 10_000  # of one document
MAX_TITLE, MAX_NAME, MAX_TEXT, MAX_ID = 1_000, 300, 100_000, 4_096
MAX_TAGS, MAX_TAG, MAX_LANG = 50, 100, 35


@dataclass(frozen=True, slots=True)
class Article:
    """One article, cleaned: texts are plain text, the link leads to the web. What is missing is empty or None."""

    guid: str = ""
    link: str = ""
    title: str = ""
    text: str = ""
    author: str = ""
    published_at: float | None = None
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Document:
    """A feed as it is now. ``ttl_s`` is how long it asks to be left alone, 0 if it does not say."""

    title: str
    site: str
    articles: tuple[Article, ...]
    ttl_s: float = 0.0
    lang: str = ""


class NotAFeed(Exception):
    """The document is no feed that can be read; the reason in a few words, and the feeds a page points to."""

    def __init__(self, reason: str, feeds: tuple[str, ...] = ()) -> None:
        super().__init__(reason)
        self.reason = reason
        self.feeds = feeds

    def __reduce__(self) -> tuple[type[NotAFeed], tuple[str, tuple[str, ...]]]:
        return NotAFeed, (self.reason, self.feeds)
