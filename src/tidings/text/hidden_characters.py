"""Remove characters that nobody sees and that can hide content: zero-width characters and tags.

- The word joiner, the byte order mark, invisible operators (U+2060–2064, U+FEFF) and tag characters (U+E0000–E007F) are
  removed; the tags of a flag (🏴󠁧󠁢󠁳󠁣󠁴󠁿: a black flag, letters, an end) stay.
- The zero-width space stays between two characters of scripts without spaces (Thai, Lao, Tibetan, Myanmar, Khmer),
  where lines may break.
- The joiner and the non-joiner (U+200D, U+200C) stay after a letter or a vowel sign of scripts that they shape (Arabic,
  Indic and others: all from U+0530), and the joiner between two emoji. Elsewhere, such as in Latin words, and repeated
  ones, they have no effect and are removed.

The tokenizer ignores all of them, so no query depends on whether they are there.
"""

from __future__ import annotations

import re
import unicodedata

ZERO_WIDTH_SPACE, NON_JOINER, JOINER = "\u200b", "\u200c", "\u200d"
_HIDDEN = re.compile(
    "(\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{3,6}\U000e007f)"  # a flag
    "|[\u200b-\u200d\u2060-\u2064\ufeff\U000e0000-\U000e007f]"
)
_UNSPACED = re.compile("[\u0e00-\u109f\u1780-\u17ff]")
_EMOJI = re.compile("[\u2190-\u2bff\u3030\u303d\u3297\u3299\ufe0f\U0001f000-\U0001faff]")
_FIRST_SHAPED = "\u0530"  # Latin, Greek and Cyrillic letters are below


def remove_hidden(text: str) -> str:
    """Return the text without hidden characters. Idempotent."""
    return _HIDDEN.sub(_replace, text)


def _replace(match: re.Match[str]) -> str:
    if match[1]:
        return match[1]
    start, end = match.span()
    before, after = match.string[max(0, start - 1) : start], match.string[end : end + 1]
    return match[0] if _is_needed(match[0], before, after) else ""


def _is_needed(character: str, before: str, after: str) -> bool:
    if character == ZERO_WIDTH_SPACE:
        return bool(_UNSPACED.match(before) and _UNSPACED.match(after))
    if character not in (NON_JOINER, JOINER):
        return False
    if character == JOINER and _EMOJI.match(before) and _EMOJI.match(after):
        return True
    return before >= _FIRST_SHAPED and unicodedata.category(before)[0] in "LM" and not _EMOJI.match(before)
