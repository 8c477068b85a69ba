"""Decode a document for an XML parser, if its declared encodings agree, and repair ampersands.

Two or three of a hundred feeds are invalid only because of a bare ampersand in a URL or an HTML entity.
"""

from __future__ import annotations

import re
from html.entities import html5

_DECLARED = re.compile(rb"""^<\?xml[^>]*?encoding\s*=\s*["']([A-Za-z0-9._-]+)["']""")
_UTF_8 = {"utf-8", "utf8", "us-ascii", "ascii"}
_SUPERSETS = {"gb2312": "gb18030", "gbk": "gb18030"}  # documents declare the first and use the second
_SUPPORTED = re.compile(r"iso-8859-\d{1,2}|windows-125\d|koi8-[ru]|gb2312|gbk|gb18030|big5|euc-(jp|kr)|shift_jis")
_CONTROLS = re.compile("[\x7f-\x9f]")  # they indicate a wrong declaration
_AMPERSAND = re.compile(
    r"<!\[CDATA\[.*?(?:\]\]>|\Z)|<!--.*?(?:-->|\Z)|<\?.*?(?:\?>|\Z)"  # ampersands are literal in these
    r"|&(?!(?:amp|lt|gt|quot|apos|#[0-9]{1,7}|#x[0-9A-Fa-f]{1,6});)(?:([A-Za-z][A-Za-z0-9]{1,31});)?",
    re.DOTALL,
)


def decode_document(document: bytes, charset: str) -> str | None:
    """Decode with the encoding that the server (`charset`) and the document declare; None if they differ or fail."""
    if document[:1] != b"<":
        return None
    declared = _DECLARED.match(document)
    encodings = {name.lower() for name in (declared[1].decode() if declared else "", charset) if name} or {"utf-8"}
    encodings = {"utf-8"} if encodings <= _UTF_8 else encodings
    name = encodings.pop()
    if encodings or not (name == "utf-8" or _SUPPORTED.fullmatch(name)):
        return None
    try:
        text = document.decode(_SUPERSETS.get(name, name))
    except (UnicodeDecodeError, LookupError):
        return None
    return None if name != "utf-8" and _CONTROLS.search(text) else text


def repair_ampersands(text: str) -> str:
    """Return the document with bare ampersands escaped and HTML entities as character references."""
    return _AMPERSAND.sub(_repair_ampersand, text)


def _repair_ampersand(match: re.Match[str]) -> str:
    if not match[0].startswith("&"):
        return match[0]
    characters = html5.get(f"{match[1]};")
    return f"&amp;{match[0][1:]}" if characters is None else "".join(f"&#{ord(character)};" for character in characters)
