"""RSS 2.0, with the URL of the feed itself (Atom's `link`) and the names of authors (Dublin Core).

RSS does not say whether titles, names and categories are HTML or plain text: most feed readers take them for HTML, some
do not. Texts that both read alike are written as they are; others (`<b>`, `&amp;`) as the HTML that displays them, so
that no reader takes the text of a post for markup. Descriptions are HTML for all readers.
"""

from __future__ import annotations

import html
import re
from email.utils import format_datetime
from xml.etree import ElementTree as ET

from tidings.delivery.feeds.model import FeedDocument, FeedEntry

MEDIA_TYPE = "application/rss+xml"
_TAG_START = re.compile("<[A-Za-z/!?]")
_ATOM, _DC = "http://www.w3.org/2005/Atom", "http://purl.org/dc/elements/1.1/"


def write_rss(document: FeedDocument) -> bytes:
    """Return the document as RSS."""
    root = ET.Element("rss", {"version": "2.0", "xmlns:atom": _ATOM, "xmlns:dc": _DC})
    channel = ET.SubElement(root, "channel")
    _add(channel, "title", _unambiguous(document.title))
    _add(channel, "link", document.home)
    _add(channel, "description", _to_html(f"Posts that match: {document.title.removeprefix('Tidings: ')}"))
    _add(channel, "lastBuildDate", format_datetime(document.updated))
    _add(channel, "generator", "Tidings")
    link = {"href": document.address, "rel": "self", "type": MEDIA_TYPE}
    ET.SubElement(channel, "atom:link", link)
    for entry in document.entries:
        _add_item(ET.SubElement(channel, "item"), entry)
    return bytes(ET.tostring(root, encoding="utf-8", xml_declaration=True))


def _add_item(item: ET.Element, entry: FeedEntry) -> None:
    _add(item, "title", _unambiguous(entry.title))
    _add(item, "description", _to_html(entry.text))
    if entry.link:
        _add(item, "link", entry.link)
    _add(item, "guid", entry.id).set("isPermaLink", "false")
    _add(item, "pubDate", format_datetime(entry.published))
    if entry.author:
        _add(item, "dc:creator", _unambiguous(entry.author))
    for tag in entry.tags:
        _add(item, "category", _unambiguous(tag))


def _unambiguous(text: str) -> str:
    """Return plain text, or HTML if a reader that expects HTML would display the plain text differently."""
    is_plain = not _TAG_START.search(text) and html.unescape(text) == text
    return text if is_plain else html.escape(text, quote=False)


def _to_html(text: str) -> str:
    return html.escape(text, quote=False).replace("\n", "<br/>\n")


def _add(parent: ET.Element, name: str, text: str) -> ET.Element:
    element = ET.SubElement(parent, name)
    element.text = text
    return element
