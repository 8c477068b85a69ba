"""From a bare word or a phrase of the query to its literals, by the cleaning that posts get."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tidings.errors import QueryError
from tidings.query.ast import Leaf
from tidings.query.dnf import Has, Ignored, Phrase
from tidings.query.geo.region import typed_place
from tidings.query.lexer import Symbol, kind_of, visible
from tidings.text import char_classes as c
from tidings.text.reference_analyzer import MAX_TOKEN_BYTES, Token, decode_entities, is_stop, tokens

STOP_WORD = "a stop word"
STOP_PHRASE = "a phrase of stop words only"
EMPTY_PHRASE = "a phrase without words"
NAME = "an @name"
LINK = "a link"
SYMBOL = "punctuation or a symbol"

_TAG_PARTS = frozenset({c.WORD, c.SINGLE, c.MARK, c.IGNORED, c.UNDERSCORE})
_LETTERS = frozenset({c.WORD, c.SINGLE})


@dataclass(slots=True)
class Read:
    """What a symbol came to: all its leaves are required together; what says nothing is listed."""

    leaves: list[Leaf] = field(default_factory=list)
    ignored: list[Ignored] = field(default_factory=list)


class _Piece:
    """A stretch of the query, decoded and cut into tokens, that knows where each of them was typed."""

    def __init__(self, raw: str, start: int) -> None:
        self.text = decode_entities(raw)
        self.tokens = list(tokens(self.text))
        self._start, self._end = start, start + len(raw)
        self._is_exact = self.text == raw  # a decoded entity shifts what follows: then the whole piece is named

    @property
    def is_one_word(self) -> bool:
        """Most pieces are, and then need no closer look."""
        if len(self.tokens) != 1:
            return False
        token = self.tokens[0]
        return token.term is not None and token.start == 0 and token.end == len(self.text)

    def span(self, start: int, end: int) -> tuple[int, int]:
        return (self._start + start, self._start + end) if self._is_exact else (self._start, self._end)

    def ignored(self, start: int, end: int, reason: str) -> Ignored:
        return Ignored(*self.span(start, end), reason)

    def error(self, reason: str, at: int) -> QueryError:
        return QueryError(reason, self.span(at, at)[0])


def read_word(symbol: Symbol) -> Read:
    """The leaves of a bare word: words, hashtags, a region; characters of a script without spaces as a phrase."""
    word = visible(symbol.content)
    if (place := typed_place(word, symbol.start)) is not None:
        return Read([Leaf(place, symbol.start, symbol.end)])
    piece = _Piece(symbol.content, symbol.start)
    if piece.is_one_word:
        return _add(Read(), piece, piece.tokens)
    _refuse_long(piece)
    _refuse_long_tag(piece)
    read = Read(ignored=list(_names_and_links(piece)))
    for run in _runs(piece):
        _add(read, piece, run)
    if not read.leaves and not read.ignored:
        read.ignored.append(Ignored(symbol.start, symbol.end, SYMBOL))
    return read


def read_phrase(symbol: Symbol) -> Read:
    """The one leaf of a phrase, in which stop words count and a hashtag is its words."""
    piece = _Piece(symbol.content, symbol.start + 1)
    _refuse_long(piece)
    words = [token for token in piece.tokens if not token.is_tag]
    terms = tuple(token.term for token in words if token.term is not None)
    if len(terms) < len(words):
        at = next(token.start for token in words if token.term is None)
        raise piece.error("No text can hold this phrase, for this sign in it is no word; leave it out.", at)
    read = Read(ignored=list(_names_and_links(piece)))
    if all(map(is_stop, terms)):
        reason = STOP_PHRASE if terms else EMPTY_PHRASE
        read.ignored.append(Ignored(symbol.start, symbol.end, reason))
    else:
        literal = Has(terms[0]) if len(terms) == 1 else Phrase(terms)
        read.leaves.append(Leaf(literal, symbol.start, symbol.end))
    return read


def _add(read: Read, piece: _Piece, run: list[Token]) -> Read:
    terms = tuple(token.term for token in run if token.term is not None)
    start, end = run[0].start, run[-1].end
    if not terms:
        read.ignored.append(piece.ignored(start, end, SYMBOL))
    elif len(terms) > 1:
        read.leaves.append(Leaf(Phrase(terms), *piece.span(start, end)))
    elif is_stop(terms[0]):
        read.ignored.append(piece.ignored(start, end, STOP_WORD))
    else:
        read.leaves.append(Leaf(Has(terms[0]), *piece.span(start, end)))
    return read


def _runs(piece: _Piece) -> Iterator[list[Token]]:
    """The tokens one by one, without the words of a hashtag; neighbours of a script without spaces together."""
    run: list[Token] = []
    tag_end = 0
    for token in piece.tokens:
        if token.start < tag_end:
            continue
        if token.is_tag:
            tag_end = token.end
        if run and not _continues(piece.text, run[-1], token):
            yield run
            run = []
        run.append(token)
    if run:
        yield run


def _continues(text: str, before: Token, token: Token) -> bool:
    is_unspaced = kind_of(text[before.start]) == kind_of(text[token.start]) == c.SINGLE
    return is_unspaced and before.end == token.start


def _refuse_long(piece: _Piece) -> None:
    for token in piece.tokens:
        if token.term is None and _is_long(piece.text[token.start : token.end]):
            raise piece.error(f"A word has at most {MAX_TOKEN_BYTES} bytes; shorten this one.", token.start)


def _refuse_long_tag(piece: _Piece) -> None:
    """A hashtag that is too long is no hashtag to the cleaner: refuse it, rather than look for its words."""
    if len(piece.text) <= MAX_TOKEN_BYTES // 4:  # even at four bytes a character
        return
    for start, end in _gaps(piece):
        for at in range(start, end):
            if kind_of(piece.text[at]) == c.HASH and _is_long(_tag_at(piece.text, at)):
                raise piece.error(f"A hashtag has at most {MAX_TOKEN_BYTES} bytes; shorten this one.", at)


def _tag_at(text: str, at: int) -> str:
    end = at + 1
    while end < len(text) and kind_of(text[end]) in _TAG_PARTS:
        end += 1
    return text[at + 1 : end]


def _is_long(raw: str) -> bool:
    return len(raw.encode("utf-8", "replace")) > MAX_TOKEN_BYTES


def _names_and_links(piece: _Piece) -> Iterator[Ignored]:
    """What the cleaner dropped although it holds letters."""
    for start, end in _gaps(piece):
        gap = piece.text[start:end].strip()
        if any(kind_of(ch) in _LETTERS for ch in gap):
            at = piece.text.index(gap, start)
            is_link = "://" in gap or "www." in gap.lower()
            yield piece.ignored(at, at + len(gap), LINK if is_link else NAME)


def _gaps(piece: _Piece) -> Iterator[tuple[int, int]]:
    """The stretches that no token covers."""
    covered = 0
    for token in piece.tokens:
        if token.start > covered:
            yield covered, token.start
        covered = max(covered, token.end)
    if covered < len(piece.text):
        yield covered, len(piece.text)
