"""Read and write OPML, the format in which feed readers exchange lists of feeds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, NoReturn
from xml.etree import ElementTree
from xml.parsers import expat

from tidings.errors import InputError
from tidings.net.urls import drop_userinfo
from tidings.text.sanitize import clean_text

MAX_BYTES = 20_000_000
MAX_ELEMENTS, MAX_FEEDS = 50_000, 10_000
_CHUNK_BYTES, _MAX_TAG_BYTES = 64 << 10, 256 << 10


class OpmlFeed(NamedTuple):
    """A feed of an OPML document."""

    url: str
    title: str = ""
    site: str = ""


def read_opml(document: bytes) -> list[OpmlFeed]:
    """Return the distinct feeds, without folders. Raises InputError if the document is not OPML or too large.

    The work is bounded, because documents come from anybody: a thousand feeds have a few thousand elements.
    """
    if len(document) > MAX_BYTES:
        raise InputError(f"OPML: larger than {MAX_BYTES // 1_000_000} MB. Split the list.")
    reader = _OpmlReader()
    try:
        reader.read(document)
    except (expat.ExpatError, ValueError, LookupError) as error:
        raise InputError(f"OPML: not valid XML ({error}).") from None
    return list(reader.feeds.values())


class _OpmlReader:
    """Collects the feeds of a document without building a tree. It reads in chunks, so that other threads can run."""

    def __init__(self) -> None:
        self.feeds: dict[str, OpmlFeed] = {}
        self._elements = 0
        self._parser = expat.ParserCreate()
        self._parser.StartElementHandler = self._start_element
        self._parser.EntityDeclHandler = self._parser.ExternalEntityRefHandler = _reject_declaration
        self._parser.AttlistDeclHandler = _reject_declaration  # defaults would multiply: declared × elements

    def read(self, document: bytes) -> None:
        for start in range(0, len(document), _CHUNK_BYTES):
            self._parser.Parse(document[start : start + _CHUNK_BYTES])
            if start - self._parser.CurrentByteIndex > _MAX_TAG_BYTES:  # it would be read again for every chunk
                raise InputError(f"OPML: a tag or comment is larger than {_MAX_TAG_BYTES >> 10} KB. Remove it.")
        self._parser.Parse(b"", True)

    def _start_element(self, tag: str, attributes: dict[str, str]) -> None:
        self._elements += 1
        if self._elements == 1 and tag.lower() != "opml":
            raise InputError(f"OPML: the root element is <{tag[:40]}>, not <opml>.")
        if self._elements > MAX_ELEMENTS or len(self.feeds) > MAX_FEEDS:
            raise InputError(f"OPML: more than {MAX_ELEMENTS:,} elements or {MAX_FEEDS:,} feeds. Split the list.")
        if tag == "outline":
            self._add_feed({name.lower(): value for name, value in attributes.items()})

    def _add_feed(self, attributes: dict[str, str]) -> None:
        if url := attributes.get("xmlurl", "").strip():
            title = clean_text(attributes.get("title") or attributes.get("text") or "", 1_000).strip()
            self.feeds.setdefault(url, OpmlFeed(url, title, attributes.get("htmlurl", "")))


def _reject_declaration(*_: object) -> NoReturn:
    raise InputError("OPML: it declares entities or attributes, which is not allowed. Remove its DTD.")


def write_opml(feeds: Iterable[OpmlFeed], title: str = "Feeds of Tidings") -> bytes:
    """Return an OPML document with the feeds, without their passwords: such files are passed on."""
    root = ElementTree.Element("opml", version="2.0")
    ElementTree.SubElement(ElementTree.SubElement(root, "head"), "title").text = title
    body = ElementTree.SubElement(root, "body")
    for feed in feeds:
        url = drop_userinfo(feed.url)
        attributes = {"type": "rss", "text": clean_text(feed.title or url), "xmlUrl": url}
        ElementTree.SubElement(body, "outline", attributes | ({"htmlUrl": feed.site} if feed.site else {}))
    ElementTree.indent(root)
    return bytes(ElementTree.tostring(root, "utf-8", xml_declaration=True)) + b"\n"
