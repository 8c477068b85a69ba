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


_INVISIBLE = (
    (0x180B, 0x180F),  # variation selectors
    (0xFE00, 0xFE0F),
    (0xE0100, 0xE01EF),
    (0x2065, 0x2065),  # not assigned
    (0xE0000, 0xE00FF),  # tags; some are not assigned
)
_ASSIGNED = ((0, 0x3FFFF), (0xE0000, 0xE01FF))  # all other code points are unassigned or private
_LETTER = 255  # in a table under construction: WORD or SINGLE
_CLASS_OF_CATEGORY = {"Nd": WORD, "Mn": MARK, "Mc": MARK, "Me": IGNORED, "Cf": IGNORED} | dict.fromkeys(
    ("Lu", "Ll", "Lt", "Lm", "Lo", "Nl"), _LETTER
)


def classify(character: str) -> int:
    """Return the class of one character."""
    return int(class_table()[ord(character)])


@cache
def class_table() -> NDArray[np.uint8]:
    """Return the class of every code point as one flat array."""
    table = np.zeros(sys.maxunicode + 1, np.uint8)
    for first, last in _ASSIGNED:
        categories = map(unicodedata.category, map(chr, range(first, last + 1)))
        table[first : last + 1] = [_CLASS_OF_CATEGORY.get(category, SEPARATOR) for category in categories]
    for first, last in _UNSPACED:
        letters = table[first : last + 1]
        letters[letters == _LETTER] = SINGLE
    table[table == _LETTER] = WORD
    for first, last in _INVISIBLE:
        table[first : last + 1] = IGNORED
    table[[*map(ord, _SPECIAL)]] = [*_SPECIAL.values()]
    return table
