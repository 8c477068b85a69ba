"""RSS 2.0, with the URL of the feed itself (Atom's `link`) and the names of authors (Dublin Core)."""

from __future__ import annotations

import html
from email.utils import format_datetime
from xml.etree import ElementTree as ET

from tidings.delivery.feeds.model import FeedDocument, FeedEntry

MEDIA_TYPE = "application/rss+xml"
_ATOM, _DC = "http://www.w3.org/2005/Atom", "http://purl.org/dc/elements/1.1/"


def write_rss(document: FeedDocument) -> bytes:
    """Return the document as RSS."""
    root = ET.Element("rss", {"version": "2.0", "xmlns:atom": _ATOM, "xmlns:dc": _DC})
    channel = ET.SubElement(root, "channel")
    _add(channel, "title", document.title)
    _add(channel, "link", document.home)
    _add(channel, "description", f"Posts that match: {document.title.removeprefix('Tidings: ')}")
    _add(channel, "lastBuildDate", format_datetime(document.updated))
    _add(channel, "generator", "Tidings")
    link = {"href": document.address, "rel": "self", "type": MEDIA_TYPE}
    ET.SubElement(channel, "atom:link", link)
    for entry in document.entries:
        _add_item(ET.SubElement(channel, "item"), entry)
    return bytes(ET.tostring(root, encoding="utf-8", xml_declaration=True))


def _add_item(item: ET.Element, entry: FeedEntry) -> None:
    _add(item, "title", entry.title)
    _add(item, "description", html.escape(entry.text, quote=False))  # feed readers interpret it as HTML
    if entry.link:
        _add(item, "link", entry.link)
    _add(item, "guid", entry.id).set("isPermaLink", "false")
    _add(item, "pubDate", format_datetime(entry.published))
    if entry.author:
        _add(item, "dc:creator", entry.author)
    for tag in entry.tags:
        _add(item, "category", tag)


def _add(parent: ET.Element, name: str, text: str) -> ET.Element:
    element = ET.SubElement(parent, name)
    element.text = text
    return element
