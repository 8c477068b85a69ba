"""The reference analyzer: defines how text becomes words and hashtags. Slow and simple.

The same rules apply to posts and subscriptions. `docs/query-language.md` states them for users; `tokenizer.py` is the
compiled version for the hot path and is tested against this file.
"""

from __future__ import annotations

import html
import html.entities
import re
import unicodedata
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources

import Stemmer

from tidings.text import char_classes as c

MAX_TOKEN_BYTES = 256  # a longer run of letters has no term; it still separates its neighbours

_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_LINK_REST = re.compile(r"[!#-;=?-~]*")  # printable ASCII except the quotation mark and the angle brackets
_TAG_PARTS = frozenset({c.WORD, c.SINGLE, c.MARK, c.IGNORED, c.UNDERSCORE})
_NAME_PARTS = frozenset({c.WORD, c.MARK, c.IGNORED, c.UNDERSCORE})
_STOP_PREFIX = "."  # marks the term of a stop word; only phrases use these
_OPTIONAL_MARKS = re.compile(  # Latin accents; Hebrew points; Arabic vowel signs and the tatweel
    "[\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670]"
)


@dataclass(frozen=True, slots=True)
class Token:
    """A token: its offsets in the text and its term; None is a gap."""

    start: int
    end: int
    term: str | None

    @property
    def is_tag(self) -> bool:
        return self.term is not None and is_tag(self.term)


@dataclass(frozen=True, slots=True)
class AnalyzedText:
    """The terms of a text.

    `sequence` has the terms of all words in order, with stop words; None is a gap that no phrase crosses.
    `terms` has what words and hashtags of a query are compared with: stems and ``#tags``, without stop words.
    """

    sequence: tuple[str | None, ...]
    terms: frozenset[str]


def analyze(text: str) -> AnalyzedText:
    """Return the terms of a text."""
    tokens = list(tokenize(decode_entities(text)))
    sequence = tuple(token.term for token in tokens if not token.is_tag)
    terms = frozenset(t.term for t in tokens if t.term is not None and not is_stop(t.term))
    return AnalyzedText(sequence, terms)


def is_tag(term: str) -> bool:
    return term.startswith("#")


def is_stop(term: str) -> bool:
    return term.startswith(_STOP_PREFIX)


def stop_term(form: str) -> str:
    """Return the term of a stop word, marked so that only phrases match it."""
    return _STOP_PREFIX + form


def decode_entities(text: str) -> str:
    """Decode well-formed HTML entities once (``&amp;`` ``&eacute;`` ``&#39;``); unknown names stay unchanged."""
    return _ENTITY.sub(_decode_entity, text) if "&" in text else text


def _decode_entity(match: re.Match[str]) -> str:
    entity = match.group()
    if entity[1] != "#" and entity[1:] not in html.entities.html5:
        return entity
    return html.unescape(entity)


def tokenize(text: str) -> Iterator[Token]:
    """Yield the tokens of decoded text in order; a hashtag comes before the words in it."""
    at = 0
    while at < len(text):
        kind = _class(text[at])
        if kind == c.WORD:
            at = yield from _tokenize_word(text, at)
        elif kind == c.SINGLE:
            end = _run_end(text, at + 1, frozenset({c.MARK, c.IGNORED}))
            yield Token(at, end, word_term(text[at:end]))
            at = _after_word(text, end)
        elif kind == c.HASH:
            end = _run_end(text, at + 1, _TAG_PARTS)
            term = tag_term(text[at + 1 : end])
            if term is not None:
                yield Token(at, end, term)
            at += 1
        elif kind == c.AT:
            at = _run_end(text, at + 1, _NAME_PARTS)
        else:
            if kind == c.BREAK:
                yield Token(at, at + 1, None)
            at += 1


def _tokenize_word(text: str, start: int) -> Generator[Token, None, int]:
    """Yield the word at `start` unless a link starts there; return the offset where to continue."""
    end = start + 1
    while end < len(text):
        kind = _class(text[end])
        joins = kind == c.APOSTROPHE and end + 1 < len(text) and _class(text[end + 1]) == c.WORD
        if kind not in (c.WORD, c.MARK, c.IGNORED) and not joins:
            break
        end += 1
    link_from = _link_start(text, start, end)
    word_end = end if link_from is None else link_from
    if word_end > start:
        yield Token(start, word_end, word_term(text[start:word_end]))
    if link_from is not None:
        rest = _LINK_REST.match(text, end)
        return end if rest is None else rest.end()
    return _after_word(text, end)


def _link_start(text: str, start: int, end: int) -> int | None:
    """Return where a link starts in this word: at ``http`` or ``https`` before ``://``, or at ``www.``"""
    word = text[start:end].lower() if text[start:end].isascii() else _ascii_lower(text[start:end])
    if text.startswith("://", end):
        for scheme in ("https", "http"):
            if word.endswith(scheme):
                return end - len(scheme)
    return start if word == "www" and text.startswith(".", end) else None


def _ascii_lower(text: str) -> str:
    return "".join(ch.lower() if ch.isascii() else ch for ch in text)


def _after_word(text: str, end: int) -> int:
    """Skip a hash or at sign directly after a word: it starts neither a hashtag nor a name."""
    return end + 1 if end < len(text) and _class(text[end]) in (c.HASH, c.AT) else end


def _run_end(text: str, at: int, parts: frozenset[int]) -> int:
    while at < len(text) and _class(text[at]) in parts:
        at += 1
    return at


@lru_cache(maxsize=1 << 16)
def _class(character: str) -> int:
    return c.classify(character)


def word_term(raw: str) -> str | None:
    """Return the stem of a word, the marked form of a stop word, or None if it has no term."""
    if len(raw.encode("utf-8", "replace")) > MAX_TOKEN_BYTES:
        return None
    form = normalize(raw)
    if form in stop_words():
        return stop_term(form)
    return stemmer().stemWord(form) or None


def tag_term(raw: str) -> str | None:
    """Return the term of a hashtag given without its hash, not stemmed; None if it has no letter or digit."""
    if len(raw.encode("utf-8", "replace")) > MAX_TOKEN_BYTES:
        return None
    form = "_".join(normalize(part) for part in raw.split("_"))
    return "#" + form if form.strip("_") else None


def normalize(raw: str) -> str:
    """Fold compatibility forms, case, Latin accents and optional vowel signs of a word."""
    if raw.isascii():
        return raw.replace("'", "").lower()
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", raw).casefold())
    return "".join(map(_strip_marks, folded))


@lru_cache(maxsize=1 << 16)  # cached per character: a hostile word of 256 bytes expands to 1,500 of them
def _strip_marks(character: str) -> str:
    """Return the character without its Latin accent; empty for accents, optional vowel signs and non-letters."""
    base = unicodedata.normalize("NFD", character)[0]
    stripped = base if base.isascii() else character
    is_letter = _class(stripped) in (c.WORD, c.SINGLE, c.MARK)
    return stripped if is_letter and not _OPTIONAL_MARKS.match(stripped) else ""


@cache
def stop_words() -> frozenset[str]:
    return frozenset(resources.files("tidings.text").joinpath("stopwords.txt").read_text("utf-8").split())


@cache
def stemmer() -> Stemmer.Stemmer:
    """Return Porter's stemmer (S³-TM), without its cache, which would make new words three times slower."""
    return Stemmer.Stemmer("porter", 0)
