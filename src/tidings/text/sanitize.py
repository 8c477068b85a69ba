"""Sanitize text, HTML and links from outside before they are stored.

Stored text is plain text: ``<b>`` in it is three characters, and code that writes it into HTML or XML escapes it.
Cleaning changes no term that a query could match, except that it joins what hidden characters had split: what is
matched is what a reader sees. It is idempotent.
"""

from __future__ import annotations

import html
import re
from urllib.parse import SplitResult, quote, urlsplit, urlunsplit

import nh3

from tidings.text.hidden_characters import has_selector_run, remove_hidden

MAX_HTML_CHARS, MAX_HTML_TAGS = 1_000_000, 10_000
"""Only this much of a document is parsed: the time grows with the square of the number of open tags."""
MAX_LINK_CHARS = 4_096

_HARMLESS = "\xa0\xad\u200e\u200f\u2009\u3000"
"""Common characters that Python does not call printable and that need no cleaning; texts with them stay fast."""
_NEW_LINES = re.compile("[\x85\u2028\u2029]")
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_NONCHARACTERS = re.compile("[\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")  # surrogates, never assigned
_RARE_NONCHARACTERS = re.compile(  # separate, because it takes five times as long as the rest
    "[" + "".join(chr(plane << 16 | end) for plane in range(1, 17) for end in (0xFFFE, 0xFFFF)) + "]"
)
_DIRECTIONS = re.compile("[\u202a-\u202e\u2066-\u2069]")  # an open one would reverse the text that follows

_BLOCKS = frozenset(
    "address article aside blockquote br caption dd div dl dt figcaption figure footer h1 h2 h3 h4 h5 h6 header hr li "
    "main nav ol option p pre section summary table tbody td tfoot th thead tr ul".split()
)
_DROPPED_ELEMENTS = frozenset({"script", "style", "template", "noscript", "iframe", "object", "svg", "math", "title"})
_TAG = re.compile(r"</?[a-z][a-z0-9]*>")
_CLEANER = nh3.Cleaner(
    tags=set(_BLOCKS),
    clean_content_tags=set(_DROPPED_ELEMENTS),
    attributes={"*": set()},  # without the star nh3 keeps `lang` and `title`
    link_rel=None,
)

_PART = r"[A-Za-z0-9%/:@!$&'()*+,;=~_.\[\]-]"
PLAIN_LINK = rf"https?://[a-z0-9.-]+(:[1-9][0-9]{{0,3}})?/{_PART}*(\?[A-Za-z0-9%/:?@!$&'()*+,;=~_.\[\]-]+)?(#{_PART}+)?"
"""A link that needs no cleaning, as most do."""
_PLAIN_LINK = re.compile(PLAIN_LINK)
_WEB = frozenset({"http", "https"})
_STRIPPED_FROM_LINKS = "".join(map(chr, range(0x21)))
_REMOVED_FROM_LINKS = re.compile("[\t\n\r]")  # browsers ignore them anywhere in a URL
_NOT_IN_HOST = re.compile('[\x00-\x20"#%/<>?@\\\\^`{|}\x7f-\xa0\ufffd]')
_UNQUOTED = "%/:?#[]@!$&'()*+,;=~"


def clean_text(text: str, max_chars: int | None = None) -> str:
    """Return the text without controls, noncharacters, direction marks and hidden characters, up to `max_chars`."""
    text = text if max_chars is None else truncate(text, max_chars)
    is_plain = text.isprintable() or _is_harmless(text := text.replace("\r\n", "\n").replace("\r", "\n"))
    if is_plain and not has_selector_run(text):
        return text  # most texts need nothing else
    text = _CONTROLS.sub(" ", _NEW_LINES.sub("\n", text))
    return remove_hidden(_DIRECTIONS.sub("", _replace_noncharacters(text)))


def _replace_noncharacters(text: str) -> str:
    text = _NONCHARACTERS.sub("\ufffd", text)
    return _RARE_NONCHARACTERS.sub("\ufffd", text) if text and max(text) > "\uffff" else text


def truncate(text: str, max_chars: int) -> str:
    """Return at most `max_chars` characters; the last one is “…” if the text was longer."""
    return text if len(text) <= max_chars else text[: max_chars - 1] + "…"


def _is_harmless(text: str) -> bool:
    text = text.replace("\n", "").replace("\t", "")
    if not text.isascii():
        for character in _HARMLESS:
            text = text.replace(character, "")
    return text.isprintable()


def _limit_html(document: str) -> str:
    cleaned = clean_text(document[:MAX_HTML_CHARS])
    if cleaned.count("<") <= MAX_HTML_TAGS:
        return cleaned
    return "<".join(cleaned.split("<", MAX_HTML_TAGS + 1)[: MAX_HTML_TAGS + 1])


def html_to_text(document: str) -> str:
    """Return the visible text of HTML, one line per block. Entities are decoded: the result is not HTML."""
    text = _TAG.sub("\n", _CLEANER.clean(_limit_html(document)))
    if "&" in text:
        text = html.unescape(text)
    if "&" in document:  # otherwise all characters come from the document, which was cleaned
        text = clean_text(text)
    text = text.replace("\t", " ").replace("\xa0", " ")
    while "  " in text:
        text = text.replace("  ", " ")
    return "\n".join([line for line in [line.strip(" ") for line in text.split("\n")] if line]).strip()


def clean_link(link: str) -> str | None:
    """Return a web link as a browser would follow it, without user name and password; None for any other."""
    return link if len(link) <= MAX_LINK_CHARS and _PLAIN_LINK.fullmatch(link) else normalize_link(link)


def normalize_link(link: str) -> str | None:
    """Return what `clean_link` returns, without the shortcut for clean links."""
    stripped = _replace_noncharacters(_REMOVED_FROM_LINKS.sub("", link.strip(_STRIPPED_FROM_LINKS)).replace("\\", "/"))
    try:
        parts = urlsplit(stripped)
        host = _host(parts)
    except ValueError:
        return None
    if parts.scheme not in _WEB or host is None or len(stripped) > MAX_LINK_CHARS:
        return None
    path, query, fragment = (quote(part, _UNQUOTED) for part in parts[2:])
    normalized = urlunsplit((parts.scheme, host, path or "/", query, fragment))
    return normalized if len(normalized) <= MAX_LINK_CHARS else None


def _host(parts: SplitResult) -> str | None:
    """Return host (lower case) and port; None if the host is missing or invalid. Raise ValueError if malformed."""
    name = parts.hostname
    if not name or _NOT_IN_HOST.search(name) or clean_text(name) != name:
        return None
    host = f"[{name}]" if ":" in name else name
    return host if parts.port is None else f"{host}:{parts.port}"
