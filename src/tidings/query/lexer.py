"""The symbols of a query: parentheses, OR, NOT, phrases and bare words, each with its place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

from tidings.errors import QueryError
from tidings.text import char_classes as c

QUOTES = '"\u201c\u201d\u201e'  # straight, and the curly ones that phones and word processors put in its place
_GAPS = r"\s\x00-\x1f\x7f-\x9f\u200b"  # white space, control characters, the zero-width space
_GAP = re.compile(f"[{_GAPS}]")
_QUOTE = re.compile(f"[{QUOTES}]")
_WORD_END = re.compile(f"[{_GAPS}(){QUOTES}]")


class Kind(Enum):
    """What a symbol is to the parser."""

    WORD = "word"
    PHRASE = "phrase"
    NOT = "NOT"
    OR = "OR"
    OPEN = "("
    CLOSE = ")"
    END = "end"


_KEYWORDS = {"OR": Kind.OR, "NOT": Kind.NOT}


class Symbol(NamedTuple):
    """A piece of the query: `start` to `end`, and the `content` to read (a phrase's is without its quotes)."""

    kind: Kind
    start: int
    end: int
    content: str


def symbols(text: str) -> Iterator[Symbol]:
    """The symbols of the query in order, an END last. Lazy: the parser stops it at the first limit reached."""
    at = _skip(text, 0)
    while at < len(text):
        symbol = _symbol(text, at)
        yield symbol
        at = _skip(text, symbol.end)
    yield Symbol(Kind.END, len(text), len(text), "")


def visible(word: str) -> str:
    """The word without invisible characters: direction marks, joiners, a byte order mark."""
    return word if word.isascii() else "".join(ch for ch in word if kind_of(ch) != c.IGNORED)


@lru_cache(maxsize=1 << 16)
def kind_of(character: str) -> int:
    """The cleaner's class of this character."""
    return c.classify(character)


def _symbol(text: str, at: int) -> Symbol:
    first = text[at]
    if first == "(":
        return Symbol(Kind.OPEN, at, at + 1, first)
    if first == ")":
        return Symbol(Kind.CLOSE, at, at + 1, first)
    if first in QUOTES:
        return _phrase(text, at)
    if first == "-" and not _is_dash(text, at):
        return Symbol(Kind.NOT, at, at + 1, first)
    return _word(text, at)


def _phrase(text: str, at: int) -> Symbol:
    closing = _QUOTE.search(text, at + 1)
    if closing is None:
        raise QueryError("This quotation mark is never closed; add one at the end of the phrase.", at)
    return Symbol(Kind.PHRASE, at, closing.end(), text[at + 1 : closing.start()])


def _word(text: str, at: int) -> Symbol:
    found = _WORD_END.search(text, at + 1)
    end = len(text) if found is None else found.start()
    content = text[at:end]
    return Symbol(_KEYWORDS.get(visible(content), Kind.WORD), at, end, content)


def _is_dash(text: str, at: int) -> bool:
    """Hyphens with a gap behind them are punctuation, not a negation."""
    while at < len(text) and (text[at] == "-" or kind_of(text[at]) == c.IGNORED):
        at += 1
    return at == len(text) or _GAP.match(text, at) is not None


def _skip(text: str, at: int) -> int:
    """Step over gaps and over invisible characters, which would hide a hyphen or an operator behind them."""
    while at < len(text) and (text[at] == " " or _GAP.match(text, at) or kind_of(text[at]) == c.IGNORED):
        at += 1
    return at
