"""Everything that came from outside passes here before it is stored: plain text, HTML, links.

What is stored as text is *text*: ``<b>`` in it are three characters, and whoever writes it into HTML or XML escapes it.
Cleaning changes no word a subscription could ask for, and cleaning again changes nothing.
"""

from __future__ import annotations

import html
import re
from urllib.parse import SplitResult, quote, urlsplit, urlunsplit

import nh3

MAX_HTML, MAX_TAGS = 1_000_000, 10_000
"""What is looked at of one document: the parser's time grows with the square of the tags that are open."""
MAX_LINK = 4_096

_HARMLESS = "\xa0\xad\u200b\u200c\u200d\u200e\u200f\u2009\u3000\ufeff"
"""Not printable to Python, and nothing to be cleaned: the usual ones, so that texts with them take the quick way."""
_NEW_LINES = re.compile("[\x85\u2028\u2029]")
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_NO_CHARACTERS = re.compile("[\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")  # halves of pairs, and what is never assigned
_NO_RARE_CHARACTERS = re.compile(  # on its own: where it is not needed, it takes five times as long as all else
    "[" + "".join(chr(plane << 16 | end) for plane in range(1, 17) for end in (0xFFFE, 0xFFFF)) + "]"
)
_DIRECTIONS = re.compile("[\u202a-\u202e\u2066-\u2069]")  # left open, they turn round the text that follows ours

_BLOCKS = frozenset(
    "address article aside blockquote br caption dd div dl dt figcaption figure footer h1 h2 h3 h4 h5 h6 header hr li "
    "main nav ol option p pre section summary table tbody td tfoot th thead tr ul".split()
)
_DROPPED_WHOLE = frozenset({"script", "style", "template", "noscript", "iframe", "object", "svg", "math", "title"})
_TAG = re.compile(r"</?[a-z][a-z0-9]*>")
_CLEANER = nh3.Cleaner(
    tags=set(_BLOCKS),
    clean_content_tags=set(_DROPPED_WHOLE),
    attributes={"*": set()},  # without the star `lang` and `title` would stay
    link_rel=None,
)

_PART = r"[A-Za-z0-9%/:@!$&'()*+,;=~_.\[\]-]"
PLAIN_LINK = rf"https?://[a-z0-9.-]+(:[1-9][0-9]{{0,3}})?/{_PART}*(\?[A-Za-z0-9%/:?@!$&'()*+,;=~_.\[\]-]+)?(#{_PART}+)?"
"""A link that is clean already, as most are."""
_PLAIN_LINK = re.compile(PLAIN_LINK)
_WEB = frozenset({"http", "https"})
_AROUND_LINKS = "".join(map(chr, range(0x21)))
_IN_LINKS = re.compile("[\t\n\r]")  # browsers leave them out wherever they stand
_NO_HOST = re.compile('[\x00-\x20"#%/<>?@\\\\^`{|}\x7f-\xa0\ufffd]')
_SAFE = "%/:?#[]@!$&'()*+,;=~"


def clean_text(text: str, longest: int | None = None) -> str:
    """Plain text without what nobody can see and no document may hold; cut to `longest` characters, the last a “…”."""
    text = text if longest is None else cut(text, longest)
    if text.isprintable() or _is_harmless(text := text.replace("\r\n", "\n").replace("\r", "\n")):
        return text  # one quick look is all that most texts need
    text = _CONTROLS.sub(" ", _NEW_LINES.sub("\n", text))
    return _DIRECTIONS.sub("", _assigned(text))


def _assigned(text: str) -> str:
    """What no text may hold, replaced."""
    text = _NO_CHARACTERS.sub("\ufffd", text)
    return _NO_RARE_CHARACTERS.sub("\ufffd", text) if text and max(text) > "\uffff" else text


def cut(text: str, longest: int) -> str:
    """So many characters of it; if there were more, the last is a “…”."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _is_harmless(text: str) -> bool:
    text = text.replace("\n", "").replace("\t", "")
    if not text.isascii():
        for character in _HARMLESS:
            text = text.replace(character, "")
    return text.isprintable()


def _bounded(document: str) -> str:
    cleaned = clean_text(document[:MAX_HTML])
    if cleaned.count("<") <= MAX_TAGS:
        return cleaned
    return "<".join(cleaned.split("<", MAX_TAGS + 1)[: MAX_TAGS + 1])


def text_of_html(document: str) -> str:
    """The text a reader of the HTML sees, a line a block; entities are decoded, so the result is no HTML."""
    text = _TAG.sub("\n", _CLEANER.clean(_bounded(document)))
    if "&" in text:
        text = html.unescape(text)
    if "&" in document:  # else there is nothing in it that was not in the document, which was cleaned
        text = clean_text(text)
    text = text.replace("\t", " ").replace("\xa0", " ")
    while "  " in text:
        text = text.replace("  ", " ")
    return "\n".join([line for line in [line.strip(" ") for line in text.split("\n")] if line]).strip()


def clean_link(link: str) -> str | None:
    """A link to the web as a browser would follow it, without name and password; None for any other."""
    return link if len(link) <= MAX_LINK and _PLAIN_LINK.fullmatch(link) else spelt_link(link)


def spelt_link(link: str) -> str | None:
    """`clean_link` of a link that may be anything."""
    bare = _assigned(_IN_LINKS.sub("", link.strip(_AROUND_LINKS)).replace("\\", "/"))
    try:
        parts = urlsplit(bare)
        host = _host(parts)
    except ValueError:
        return None
    if parts.scheme not in _WEB or host is None or len(bare) > MAX_LINK:
        return None
    path, query, fragment = (quote(part, _SAFE) for part in parts[2:])
    spelt = urlunsplit((parts.scheme, host, path or "/", query, fragment))
    return spelt if len(spelt) <= MAX_LINK else None


def _host(parts: SplitResult) -> str | None:
    """The host in small letters, and the port; None if there is none, ValueError if it is malformed."""
    name = parts.hostname
    if not name or _NO_HOST.search(name) or clean_text(name) != name:
        return None
    shown = f"[{name}]" if ":" in name else name
    return shown if parts.port is None else f"{shown}:{parts.port}"
