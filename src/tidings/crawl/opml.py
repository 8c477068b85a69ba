"""Read and write OPML, the format in which feed readers exchange lists of feeds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from xml.etree import ElementTree

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import fromstring

from tidings.errors import InputError
from tidings.text.sanitize import clean_text

MAX_BYTES = 20_000_000


class OpmlFeed(NamedTuple):
    """A feed of an OPML document."""

    url: str
    title: str = ""
    site: str = ""


def read_opml(document: bytes) -> list[OpmlFeed]:
    """Return the distinct feeds, without folders. Raises InputError if the document is not OPML."""
    if len(document) > MAX_BYTES:
        raise InputError(f"OPML: larger than {MAX_BYTES // 1_000_000} MB. Split the list.")
    try:
        root = fromstring(document, forbid_dtd=False, forbid_entities=True, forbid_external=True)
    except DefusedXmlException:
        raise InputError("OPML: it declares entities, which are not allowed. Remove its DTD.") from None
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise InputError(f"OPML: not valid XML ({error}).") from None
    if root.tag.lower() != "opml":
        raise InputError(f"OPML: the root element is <{root.tag[:40]}>, not <opml>.")
    feeds: dict[str, OpmlFeed] = {}
    for outline in root.iter("outline"):
        attributes = {name.lower(): value for name, value in outline.attrib.items()}
        if url := attributes.get("xmlurl", "").strip():
            title = clean_text(attributes.get("title") or attributes.get("text") or "", 1_000).strip()
            feeds.setdefault(url, OpmlFeed(url, title, attributes.get("htmlurl", "")))
    return list(feeds.values())


def write_opml(feeds: Iterable[OpmlFeed], title: str = "Feeds of Tidings") -> bytes:
    """Return an OPML document with the feeds."""
    root = ElementTree.Element("opml", version="2.0")
    ElementTree.SubElement(ElementTree.SubElement(root, "head"), "title").text = title
    body = ElementTree.SubElement(root, "body")
    for feed in feeds:
        attributes = {"type": "rss", "text": clean_text(feed.title or feed.url), "xmlUrl": feed.url}
        ElementTree.SubElement(body, "outline", attributes | ({"htmlUrl": feed.site} if feed.site else {}))
    ElementTree.indent(root)
    return bytes(ElementTree.tostring(root, "utf-8", xml_declaration=True)) + b"\n"
