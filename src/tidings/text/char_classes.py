"""The character class of every Unicode code point.

The table is the single definition; `reference_analyzer.py` and the compiled `tokenizer.py` both read it.
"""

from __future__ import annotations

import sys
import unicodedata
from functools import cache

import numpy as np
from numpy.typing import NDArray

SEPARATOR = 0  # ends a word: space, punctuation, symbols, emoji, controls
WORD = 1  # letters and decimal digits of scripts that put spaces between words
SINGLE = 2  # letters of scripts that do not: each is a word
MARK = 3  # accents and vowel signs: belong to the letter before them
IGNORED = 4  # invisible: joiners, direction marks, soft hyphens, variation selectors
APOSTROPHE = 5  # joins when a letter follows
UNDERSCORE = 6  # ends a word, continues a hashtag or a name
HASH = 7  # starts a hashtag
AT = 8  # starts a name
COLON = 9  # "http:" is the start of a link
DOT = 10  # "www." is the start of a link
AMPERSAND = 11  # may start an HTML entity
BREAK = 12  # ends a field: no phrase crosses it

FIELD_BREAK = "\x1f"  # separates the title, the text and the tags of a post

_SPECIAL = {
    "'": APOSTROPHE,
    "\u2019": APOSTROPHE,
    "\uff07": APOSTROPHE,
    "_": UNDERSCORE,
    "#": HASH,
    "\uff03": HASH,
    "@": AT,
    "\uff20": AT,
    ":": COLON,
    ".": DOT,
    "&": AMPERSAND,
    FIELD_BREAK: BREAK,
    "\u200b": SEPARATOR,  # the zero-width space separates words, unlike the other invisible characters
    "\uff9e": MARK,  # half-width voicing marks are letters to Unicode, accents to a reader
    "\uff9f": MARK,
}

# Letters of scripts written without spaces: Thai, Lao, Myanmar, Khmer, Kana, Han.
_UNSPACED = (
    (0x0E00, 0x0EFF),
    (0x1000, 0x109F),
    (0x1780, 0x17FF),
    (0x3005, 0x3007),
    (0x3041, 0x30FF),
    (0x31F0, 0x31FF),
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0xFF66, 0xFF9D),
    (0x20000, 0x3FFFF),
)


def classify(character: str) -> int:
    """Return the class of one character."""
    special = _SPECIAL.get(character)
    if special is not None:
        return special
    category = unicodedata.category(character)
    if category == "Cf" or category == "Me" or _is_variation_selector(ord(character)):
        return IGNORED
    if category[0] == "M":
        return MARK
    if category[0] == "L" or category == "Nl":
        return SINGLE if _is_unspaced(ord(character)) else WORD
    return WORD if category == "Nd" else SEPARATOR


def _is_variation_selector(code: int) -> bool:
    return 0xFE00 <= code <= 0xFE0F or 0xE0100 <= code <= 0xE01EF or 0x180B <= code <= 0x180F


def _is_unspaced(code: int) -> bool:
    return any(first <= code <= last for first, last in _UNSPACED)


@cache
def class_table() -> NDArray[np.uint8]:
    """Return the class of every code point as one flat array."""
    table = np.zeros(sys.maxunicode + 1, np.uint8)
    for first, last in ((0, 0x40000), (0xE0000, 0xE0200)):  # all other code points are unassigned or private
        table[first:last] = [classify(chr(code)) for code in range(first, last)]
    return table
