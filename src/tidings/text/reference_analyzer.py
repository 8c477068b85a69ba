"""The definition of cleaning: raw text to words, hashtags and their order. Slow, obvious, and right by definition.

The same rules hold for posts and for subscriptions. `docs/query-language.md` states them for users; `tokenise.py` is
the compiled twin that runs on the hot path and is tested against this file.
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

MAX_TOKEN_BYTES = 256  # a longer run of letters is not a word; it still separates its neighbours

_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_LINK_REST = re.compile(r"[!#-;=?-~]*")  # printable ASCII but the quotation mark and the angle brackets
_TAG_PARTS = frozenset({c.WORD, c.SINGLE, c.MARK, c.IGNORED, c.UNDERSCORE})
_NAME_PARTS = frozenset({c.WORD, c.MARK, c.IGNORED, c.UNDERSCORE})
_STOP_PREFIX = "."  # marks the term of a stop word; only phrases look for those
_UNWRITTEN = re.compile(  # Latin accents; Hebrew points; Arabic vowel signs and the tatweel
    "[\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670]"
)


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of text that counts: where it stands, and the term it is looked up by (None: it counts only as a gap)."""

    start: int
    end: int
    term: str | None

    @property
    def is_tag(self) -> bool:
        return self.term is not None and is_tag(self.term)


@dataclass(frozen=True, slots=True)
class CleanText:
    """A post as matching sees it.

    `sequence` holds the terms of all words in order, stop words included; None is a gap no phrase reaches across.
    `terms` holds what single words and hashtags of a query are compared with: stems and ``#tags``, no stop words.
    """

    sequence: tuple[str | None, ...]
    terms: frozenset[str]


def clean(text: str) -> CleanText:
    """Clean a whole text."""
    found = list(tokens(decode_entities(text)))
    sequence = tuple(token.term for token in found if not token.is_tag)
    terms = frozenset(t.term for t in found if t.term is not None and not is_stop(t.term))
    return CleanText(sequence, terms)


def is_tag(term: str) -> bool:
    return term.startswith("#")


def is_stop(term: str) -> bool:
    return term.startswith(_STOP_PREFIX)


def stop_term(form: str) -> str:
    """The term of a stop word: marked, so that only phrases find it."""
    return _STOP_PREFIX + form


def decode_entities(text: str) -> str:
    """Decode well-formed HTML entities once: ``&amp;`` ``&eacute;`` ``&#39;``. Unknown names stay as they are."""
    return _ENTITY.sub(_decode_entity, text) if "&" in text else text


def _decode_entity(found: re.Match[str]) -> str:
    entity = found.group()
    if entity[1] != "#" and entity[1:] not in html.entities.html5:
        return entity
    return html.unescape(entity)


def tokens(text: str) -> Iterator[Token]:
    """The tokens of a text whose entities are decoded, in order; a hashtag comes before the words it is made of."""
    at = 0
    while at < len(text):
        kind = _class(text[at])
        if kind == c.WORD:
            at = yield from _word(text, at)
        elif kind == c.SINGLE:
            end = _run(text, at + 1, frozenset({c.MARK, c.IGNORED}))
            yield Token(at, end, word_term(text[at:end]))
            at = _after_word(text, end)
        elif kind == c.HASH:
            end = _run(text, at + 1, _TAG_PARTS)
            term = tag_term(text[at + 1 : end])
            if term is not None:
                yield Token(at, end, term)
            at += 1
        elif kind == c.AT:
            at = _run(text, at + 1, _NAME_PARTS)
        else:
            if kind == c.BREAK:
                yield Token(at, at + 1, None)
            at += 1


def _word(text: str, start: int) -> Generator[Token, None, int]:
    """Yield the word that starts here, unless it is the head of a link; return where to go on."""
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
    """Where a link begins in the word start to end: its ``http`` or ``https`` before ``://``, or all of ``www.``"""
    word = text[start:end].lower() if text[start:end].isascii() else _ascii_lower(text[start:end])
    if text.startswith("://", end):
        for scheme in ("https", "http"):
            if word.endswith(scheme):
                return end - len(scheme)
    return start if word == "www" and text.startswith(".", end) else None


def _ascii_lower(text: str) -> str:
    return "".join(ch.lower() if ch.isascii() else ch for ch in text)


def _after_word(text: str, end: int) -> int:
    """A hash or at sign right after a word starts neither a hashtag nor a name: step over it."""
    return end + 1 if end < len(text) and _class(text[end]) in (c.HASH, c.AT) else end


def _run(text: str, at: int, parts: frozenset[int]) -> int:
    while at < len(text) and _class(text[at]) in parts:
        at += 1
    return at


@lru_cache(maxsize=1 << 16)
def _class(character: str) -> int:
    return c.classify(character)


def term_of(raw: str) -> str | None:
    """The term of a raw token as it stands in the text, a leading hash marking a hashtag; None if nothing is left."""
    return tag_term(raw[1:]) if raw[0] in "#\uff03" else word_term(raw)


def word_term(raw: str) -> str | None:
    """The stem of a word, the marked form of a stop word, or None when it is no word after all."""
    if len(raw.encode("utf-8", "replace")) > MAX_TOKEN_BYTES:
        return None
    form = normalise(raw)
    if form in stop_words():
        return stop_term(form)
    return stemmer().stemWord(form) or None


def tag_term(raw: str) -> str | None:
    """The term of a hashtag, given without its hash: not stemmed, and None when it holds no letter or digit."""
    if len(raw.encode("utf-8", "replace")) > MAX_TOKEN_BYTES:
        return None
    form = "_".join(normalise(part) for part in raw.split("_"))
    return "#" + form if form.strip("_") else None


def normalise(raw: str) -> str:
    """One spelling for all ways to write a word: compatibility forms, case, Latin accents, unwritten vowels."""
    if raw.isascii():
        return raw.replace("'", "").lower()
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", raw).casefold())
    return "".join(map(_bare, folded))


@lru_cache(maxsize=1 << 16)  # one step a character: a hostile word of 256 bytes unfolds to 1,500 of them
def _bare(character: str) -> str:
    """The character without its Latin accent; nothing for an accent, an unwritten vowel or what is no letter."""
    base = unicodedata.normalize("NFD", character)[0]
    bare = base if base.isascii() else character
    is_letter = _class(bare) in (c.WORD, c.SINGLE, c.MARK)
    return bare if is_letter and not _UNWRITTEN.match(bare) else ""


@cache
def stop_words() -> frozenset[str]:
    return frozenset(resources.files("tidings.text").joinpath("stopwords.txt").read_text("utf-8").split())


@cache
def stemmer() -> Stemmer.Stemmer:
    """Porter's algorithm, as the paper names it. Its own cache would cost three times the stemming of new words."""
    return Stemmer.Stemmer("porter", 0)
