"""Atom 1.0."""

from __future__ import annotations

from datetime import datetime
from xml.etree import ElementTree as ET

from tidings.delivery.feeds.model import FeedDocument, FeedEntry

MEDIA_TYPE = "application/atom+xml"
_NAMESPACE = "http://www.w3.org/2005/Atom"


def write_atom(document: FeedDocument) -> bytes:
    """Return the document as Atom."""
    feed = ET.Element("feed", {"xmlns": _NAMESPACE})
    _add(feed, "id", document.id)
    _add(feed, "title", document.title).set("type", "text")
    _add(feed, "updated", _format_time(document.updated))
    ET.SubElement(feed, "link", {"rel": "self", "href": document.address, "type": MEDIA_TYPE})
    ET.SubElement(feed, "link", {"rel": "alternate", "href": document.home, "type": "text/html"})
    _add(ET.SubElement(feed, "author"), "name", "Tidings")
    _add(feed, "generator", "Tidings")
    for entry in document.entries:
        _add_entry(ET.SubElement(feed, "entry"), entry)
    return bytes(ET.tostring(feed, encoding="utf-8", xml_declaration=True))


def _add_entry(element: ET.Element, entry: FeedEntry) -> None:
    _add(element, "id", entry.id)
    _add(element, "title", entry.title).set("type", "text")
    _add(element, "updated", _format_time(entry.published))  # many readers show only this one
    _add(element, "published", _format_time(entry.published))
    if entry.link:
        ET.SubElement(element, "link", {"rel": "alternate", "href": entry.link})
    if entry.author:
        _add(ET.SubElement(element, "author"), "name", entry.author)
    for tag in entry.tags:
        ET.SubElement(element, "category", {"term": tag})
    _add(element, "content", entry.text).set("type", "text")


def _format_time(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def _add(parent: ET.Element, name: str, text: str) -> ET.Element:
    element = ET.SubElement(parent, name)
    element.text = text
    return element
