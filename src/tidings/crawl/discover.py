"""The feeds a page points to, as browsers find them: `<link rel="alternate" type="application/rss+xml">`."""

from __future__ import annotations

from contextlib import suppress
from html.parser import HTMLParser

from tidings.crawl.normalize import web_link

_TYPES = {"application/rss+xml", "application/atom+xml", "application/feed+json", "application/rdf+xml"}
_MAYBE = {"application/json", "application/xml", "text/xml"}  # only where the link says that it is a feed
_LOOKED_AT = 500_000  # characters: links stand in the head
_MOST = 20


class _Links(HTMLParser):
    def __init__(self, url: str) -> None:
        super().__init__(convert_charrefs=True)
        self.base = url
        self.found: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = {name: value or "" for name, value in attrs}
        if tag == "base" and told.get("href"):
            self.base = web_link(told["href"], self.base) or self.base
        if tag == "link" and _is_feed(told):
            self.found.append((web_link(told.get("href", ""), self.base), told.get("title", "")))


def _is_feed(told: dict[str, str]) -> bool:
    rel, kind = told.get("rel", "").lower().split(), told.get("type", "").lower().partition(";")[0].strip()
    return ("alternate" in rel and kind in _TYPES) or ("feed" in rel and (not kind or kind in _TYPES | _MAYBE))


def feeds_of(page: bytes, url: str) -> tuple[str, ...]:
    """Their addresses, in the order of the page but those of comments last."""
    links = _Links(url)
    with suppress(AssertionError, ValueError):  # the parser gives up on some pages; what it found before is good
        links.feed(page[:_LOOKED_AT].decode("utf-8", "replace"))
    found = sorted(links.found[:_MOST], key=_is_of_comments)
    return tuple(dict.fromkeys(address for address, _ in found if address and address != url))


def _is_of_comments(link: tuple[str, str]) -> bool:
    return any("comment" in part.lower() for part in link)
