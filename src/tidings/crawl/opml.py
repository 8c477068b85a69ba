"""Lists of feeds as readers exchange them: OPML, in and out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from xml.etree import ElementTree

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import fromstring

from tidings.errors import InputError
from tidings.text.sanitize import clean_text

MAX_BYTES = 20_000_000


class Listed(NamedTuple):
    """A feed of a list."""

    url: str
    title: str = ""
    site: str = ""


def read_opml(document: bytes) -> list[Listed]:
    """The feeds of a list, folders left out, each once; InputError where it is no such list."""
    if len(document) > MAX_BYTES:
        raise InputError(f"The list is larger than {MAX_BYTES // 1_000_000} MB; split it.")
    try:
        root = fromstring(document, forbid_dtd=False, forbid_entities=True, forbid_external=True)
    except DefusedXmlException:
        raise InputError("The list declares entities, which may be an attack; remove its DTD.") from None
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise InputError(f"The list is no XML that can be read: {error}.") from None
    if root.tag.lower() != "opml":
        raise InputError(f"The list should be OPML, and begins with <{root.tag[:40]}>.")
    found: dict[str, Listed] = {}
    for outline in root.iter("outline"):
        told = {name.lower(): value for name, value in outline.attrib.items()}
        if url := told.get("xmlurl", "").strip():
            title = clean_text(told.get("title") or told.get("text") or "", 1_000).strip()
            found.setdefault(url, Listed(url, title, told.get("htmlurl", "")))
    return list(found.values())


def write_opml(feeds: Iterable[Listed], title: str = "Feeds of Tidings") -> bytes:
    """A list that other readers, and `read_opml`, understand."""
    root = ElementTree.Element("opml", version="2.0")
    ElementTree.SubElement(ElementTree.SubElement(root, "head"), "title").text = title
    body = ElementTree.SubElement(root, "body")
    for one in feeds:
        told = {"type": "rss", "text": clean_text(one.title or one.url), "xmlUrl": one.url}
        ElementTree.SubElement(body, "outline", told | ({"htmlUrl": one.site} if one.site else {}))
    ElementTree.indent(root)
    return bytes(ElementTree.tostring(root, "utf-8", xml_declaration=True)) + b"\n"
