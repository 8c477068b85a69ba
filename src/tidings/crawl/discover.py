"""Find the feeds that a page links to: `<link rel="alternate" type="application/rss+xml">`."""

from __future__ import annotations

from contextlib import suppress
from html.parser import HTMLParser

from tidings.crawl.normalize import web_link

_TYPES = {"application/rss+xml", "application/atom+xml", "application/feed+json", "application/rdf+xml"}
_GENERIC_TYPES = {"application/json", "application/xml", "text/xml"}  # only with rel="feed"
_MAX_BYTES = 500_000  # the links are in the head
_MAX_LINKS = 20


class _LinkParser(HTMLParser):
    def __init__(self, url: str) -> None:
        super().__init__(convert_charrefs=True)
        self.base = url
        self.links: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        if tag == "base" and attributes.get("href"):
            self.base = web_link(attributes["href"], self.base) or self.base
        if tag == "link" and _is_feed(attributes):
            self.links.append((web_link(attributes.get("href", ""), self.base), attributes.get("title", "")))


def _is_feed(attributes: dict[str, str]) -> bool:
    rel, kind = attributes.get("rel", "").lower().split(), attributes.get("type", "").lower().partition(";")[0].strip()
    return ("alternate" in rel and kind in _TYPES) or ("feed" in rel and (not kind or kind in _TYPES | _GENERIC_TYPES))


def find_feed_links(page: bytes, url: str) -> tuple[str, ...]:
    """Return the URLs in the order of the page, feeds of comments last."""
    parser = _LinkParser(url)
    with suppress(AssertionError, ValueError):  # the parser gives up on some pages; keep the links before that
        parser.feed(page[:_MAX_BYTES].decode("utf-8", "replace"))
    links = sorted(parser.links[:_MAX_LINKS], key=_is_of_comments)
    return tuple(dict.fromkeys(address for address, _ in links if address and address != url))


def _is_of_comments(link: tuple[str, str]) -> bool:
    return any("comment" in part.lower() for part in link)
