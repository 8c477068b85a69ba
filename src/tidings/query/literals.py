"""Turn a word or a phrase of a query into literals, with the text analysis that posts get."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tidings.errors import QueryError
from tidings.query.ast import LiteralNode
from tidings.query.dnf import Has, IgnoredText, Phrase
from tidings.query.geo.region import parse_region_word
from tidings.query.lexer import Symbol, char_class, strip_invisible
from tidings.text import char_classes as c
from tidings.text.reference_analyzer import MAX_TOKEN_BYTES, Token, decode_entities, is_stop, tokenize

STOP_WORD = "a stop word"
STOP_PHRASE = "a phrase of stop words only"
EMPTY_PHRASE = "a phrase without words"
NAME = "an @name"
LINK = "a link"
SYMBOL = "punctuation or a symbol"

_TAG_PARTS = frozenset({c.WORD, c.SINGLE, c.MARK, c.IGNORED, c.UNDERSCORE})
_LETTERS = frozenset({c.WORD, c.SINGLE})


@dataclass(slots=True)
class SymbolLiterals:
    """The literals of a symbol, all of them required, and the parts that are ignored."""

    nodes: list[LiteralNode] = field(default_factory=list)
    ignored: list[IgnoredText] = field(default_factory=list)


class _TokenizedText:
    """A part of the query, decoded and split into tokens, with the positions at which they were typed."""

    def __init__(self, raw: str, start: int) -> None:
        self.text = decode_entities(raw)
        self.tokens = list(tokenize(self.text))
        self._start, self._end = start, start + len(raw)
        self._is_exact = self.text == raw  # a decoded entity shifts what follows: then errors refer to the whole part

    @property
    def is_one_word(self) -> bool:
        """Whether the text is one token: the usual case, which needs no further checks."""
        if len(self.tokens) != 1:
            return False
        token = self.tokens[0]
        return token.term is not None and token.start == 0 and token.end == len(self.text)

    def span(self, start: int, end: int) -> tuple[int, int]:
        return (self._start + start, self._start + end) if self._is_exact else (self._start, self._end)

    def make_ignored(self, start: int, end: int, reason: str) -> IgnoredText:
        return IgnoredText(*self.span(start, end), reason)

    def error(self, reason: str, at: int) -> QueryError:
        return QueryError(reason, self.span(at, at)[0])


def parse_word(symbol: Symbol) -> SymbolLiterals:
    """Return the literals of a word: terms, tags or a region. Unspaced scripts become a phrase."""
    region = parse_region_word(strip_invisible(symbol.content), symbol.start)
    if region is not None:
        return SymbolLiterals([LiteralNode(region, symbol.start, symbol.end)])
    source = _TokenizedText(symbol.content, symbol.start)
    if source.is_one_word:
        return _add_run(SymbolLiterals(), source, source.tokens)
    _check_word_length(source)
    _check_tag_length(source)
    result = SymbolLiterals(ignored=list(_iter_names_and_links(source)))
    for run in _iter_runs(source):
        _add_run(result, source, run)
    if not result.nodes and not result.ignored:
        result.ignored.append(IgnoredText(symbol.start, symbol.end, SYMBOL))
    return result


def parse_phrase(symbol: Symbol) -> SymbolLiterals:
    """Return the one literal of a phrase. Stop words count, and a hashtag stands for its words."""
    source = _TokenizedText(symbol.content, symbol.start + 1)
    _check_word_length(source)
    words = [token for token in source.tokens if not token.is_tag]
    terms = tuple(token.term for token in words if token.term is not None)
    if len(terms) < len(words):
        at = next(token.start for token in words if token.term is None)
        raise source.error("No text can contain this phrase, because this sign is not a word. Remove the sign.", at)
    result = SymbolLiterals(ignored=list(_iter_names_and_links(source)))
    if all(map(is_stop, terms)):
        reason = STOP_PHRASE if terms else EMPTY_PHRASE
        result.ignored.append(IgnoredText(symbol.start, symbol.end, reason))
    else:
        literal = Has(terms[0]) if len(terms) == 1 else Phrase(terms)
        result.nodes.append(LiteralNode(literal, symbol.start, symbol.end))
    return result


def _add_run(result: SymbolLiterals, source: _TokenizedText, run: list[Token]) -> SymbolLiterals:
    terms = tuple(token.term for token in run if token.term is not None)
    start, end = run[0].start, run[-1].end
    if not terms:
        result.ignored.append(source.make_ignored(start, end, SYMBOL))
    elif len(terms) > 1:
        result.nodes.append(LiteralNode(Phrase(terms), *source.span(start, end)))
    elif is_stop(terms[0]):
        result.ignored.append(source.make_ignored(start, end, STOP_WORD))
    else:
        result.nodes.append(LiteralNode(Has(terms[0]), *source.span(start, end)))
    return result


def _iter_runs(source: _TokenizedText) -> Iterator[list[Token]]:
    """Yield tokens without the words of hashtags; adjacent tokens of an unspaced script are one run."""
    run: list[Token] = []
    tag_end = 0
    for token in source.tokens:
        if token.start < tag_end:
            continue
        if token.is_tag:
            tag_end = token.end
        if run and not _is_same_run(source.text, run[-1], token):
            yield run
            run = []
        run.append(token)
    if run:
        yield run


def _is_same_run(text: str, before: Token, token: Token) -> bool:
    is_unspaced = char_class(text[before.start]) == char_class(text[token.start]) == c.SINGLE
    return is_unspaced and before.end == token.start


def _check_word_length(source: _TokenizedText) -> None:
    for token in source.tokens:
        if token.term is None and _is_too_long(source.text[token.start : token.end]):
            raise source.error(f"This word has more than {MAX_TOKEN_BYTES} bytes. Shorten it.", token.start)


def _check_tag_length(source: _TokenizedText) -> None:
    """Reject a hashtag that is too long: the analyzer would drop it and keep only its words."""
    if len(source.text) <= MAX_TOKEN_BYTES // 4:  # even at four bytes per character
        return
    for start, end in _iter_gaps(source):
        for at in range(start, end):
            if char_class(source.text[at]) == c.HASH and _is_too_long(_tag_at(source.text, at)):
                raise source.error(f"This hashtag has more than {MAX_TOKEN_BYTES} bytes. Shorten it.", at)


def _tag_at(text: str, at: int) -> str:
    end = at + 1
    while end < len(text) and char_class(text[end]) in _TAG_PARTS:
        end += 1
    return text[at + 1 : end]


def _is_too_long(raw: str) -> bool:
    return len(raw.encode("utf-8", "replace")) > MAX_TOKEN_BYTES


def _iter_names_and_links(source: _TokenizedText) -> Iterator[IgnoredText]:
    """Yield what the analyzer dropped although it contains letters."""
    for start, end in _iter_gaps(source):
        gap = source.text[start:end].strip()
        if any(char_class(ch) in _LETTERS for ch in gap):
            at = source.text.index(gap, start)
            is_link = "://" in gap or "www." in gap.lower()
            yield source.make_ignored(at, at + len(gap), LINK if is_link else NAME)


def _iter_gaps(source: _TokenizedText) -> Iterator[tuple[int, int]]:
    """Yield the ranges of characters that no token covers."""
    covered = 0
    for token in source.tokens:
        if token.start > covered:
            yield covered, token.start
        covered = max(covered, token.end)
    if covered < len(source.text):
        yield covered, len(source.text)
