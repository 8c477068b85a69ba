"""Split a query into symbols: parentheses, OR, NOT, phrases and words, each with its position."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

from tidings.errors import QueryError
from tidings.text import char_classes as c

QUOTES = '"\u201c\u201d\u201e'  # straight, and the curly ones that phones and word processors insert
_GAPS = r"\s\x00-\x1f\x7f-\x9f"  # white space, control characters
_GAP = re.compile(f"[{_GAPS}]")
_QUOTE = re.compile(f"[{QUOTES}]")
_WORD_END = re.compile(f"[{_GAPS}(){QUOTES}]")


class SymbolKind(Enum):
    """The kinds of symbols that the parser distinguishes."""

    WORD = "word"
    PHRASE = "phrase"
    NOT = "NOT"
    OR = "OR"
    OPEN = "("
    CLOSE = ")"
    END = "end"


_KEYWORDS = {"OR": SymbolKind.OR, "NOT": SymbolKind.NOT}


class Symbol(NamedTuple):
    """Characters `start` to `end` of the query; `content` is without the quotation marks of a phrase."""

    kind: SymbolKind
    start: int
    end: int
    content: str


def iter_symbols(text: str) -> Iterator[Symbol]:
    """Yield the symbols in order, END last. Lazy, because the parser stops at the first limit reached."""
    at = _skip_gaps(text, 0)
    while at < len(text):
        symbol = _scan_symbol(text, at)
        yield symbol
        at = _skip_gaps(text, symbol.end)
    yield Symbol(SymbolKind.END, len(text), len(text), "")


def strip_invisible(word: str) -> str:
    """Remove invisible characters: direction marks, joiners, a byte order mark."""
    return word if word.isascii() else "".join(ch for ch in word if char_class(ch) != c.IGNORED)


@lru_cache(maxsize=1 << 16)
def char_class(character: str) -> int:
    """Return the class of a character (`text/char_classes`), cached."""
    return c.classify(character)


def _scan_symbol(text: str, at: int) -> Symbol:
    first = text[at]
    if first == "(":
        return Symbol(SymbolKind.OPEN, at, at + 1, first)
    if first == ")":
        return Symbol(SymbolKind.CLOSE, at, at + 1, first)
    if first in QUOTES:
        return _scan_phrase(text, at)
    if first == "-" and not _is_dash(text, at):
        return Symbol(SymbolKind.NOT, at, at + 1, first)
    return _scan_word(text, at)


def _scan_phrase(text: str, at: int) -> Symbol:
    closing = _QUOTE.search(text, at + 1)
    if closing is None:
        raise QueryError("This quotation mark is never closed. Add one at the end of the phrase.", at)
    return Symbol(SymbolKind.PHRASE, at, closing.end(), text[at + 1 : closing.start()])


def _scan_word(text: str, at: int) -> Symbol:
    boundary = _WORD_END.search(text, at + 1)
    end = len(text) if boundary is None else boundary.start()
    content = text[at:end]
    return Symbol(_KEYWORDS.get(strip_invisible(content), SymbolKind.WORD), at, end, content)


def _is_dash(text: str, at: int) -> bool:
    """Return whether hyphens are followed by a gap: then they are punctuation, not a negation."""
    while at < len(text) and (text[at] == "-" or char_class(text[at]) == c.IGNORED):
        at += 1
    return at == len(text) or _GAP.match(text, at) is not None


def _skip_gaps(text: str, at: int) -> int:
    """Skip gaps and invisible characters, which would hide a hyphen or an operator after them."""
    while at < len(text) and (text[at] == " " or _GAP.match(text, at) or char_class(text[at]) == c.IGNORED):
        at += 1
    return at
