"""Remove characters that nobody sees and that can hide content: zero-width characters and tags.

- The word joiner, the byte order mark, the Mongolian vowel separator, invisible operators and deprecated controls
  (U+180E, U+2060–2065, U+206A–206F, U+FEFF) and tag characters (U+E0000–E00FF) are removed; the tags of a flag
  (🏴󠁧󠁢󠁳󠁣󠁴󠁿: a black flag, letters, an end) stay.
- The zero-width space stays between two characters of scripts without spaces (Thai, Lao, Tibetan, Myanmar, Khmer),
  where lines may break.
- The joiner and the non-joiner (U+200D, U+200C) stay after a letter or a vowel sign of scripts that they shape (Arabic,
  Indic and others: all from U+0530), and the joiner between two emoji. Elsewhere, such as in Latin words, and repeated
  ones, they have no effect and are removed.
- Of several variation selectors in a row only the first has an effect and stays; none after a joiner has one.

The tokenizer ignores all of them, so no query depends on whether they are there.
"""

from __future__ import annotations

import re
import unicodedata

ZERO_WIDTH_SPACE, NON_JOINER, JOINER = "\u200b", "\u200c", "\u200d"
_SELECTORS = "\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef"
_SELECTOR, _SELECTOR_RUN = re.compile(f"[{_SELECTORS}]"), re.compile(f"[{_SELECTORS}]{{2}}")
_HIDDEN = re.compile(
    "(\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{3,6}\U000e007f)"  # a flag
    f"|[\u180e\u200b-\u200d\u2060-\u2065\u206a-\u206f\ufeff\U000e0000-\U000e00ff{_SELECTORS}]+"
)
_UNSPACED = re.compile("[\u0e00-\u109f\u1780-\u17ff]")
_EMOJI = re.compile("[\u2190-\u2bff\u3030\u303d\u3297\u3299\ufe0f\U0001f000-\U0001faff]")
_FIRST_SHAPED = "\u0530"  # Latin, Greek and Cyrillic letters are below


def remove_hidden(text: str) -> str:
    """Return the text without hidden characters. Idempotent."""
    return _HIDDEN.sub(_replace, text)


def has_selector_run(text: str) -> bool:
    """Return whether there are several variation selectors in a row. Python calls these characters printable."""
    return not text.isascii() and _SELECTOR_RUN.search(text) is not None


def _replace(match: re.Match[str]) -> str:
    if match[1]:
        return match[1]
    start, end = match.span()
    run, text = match[0], match.string
    before, kept = text[max(0, start - 1) : start], ""
    for character, after in zip(run, run[1:] + (text[end : end + 1] or " "), strict=True):
        if _is_needed(character, before, after):
            kept += character
            before = character
    return kept


def _is_needed(character: str, before: str, after: str) -> bool:
    if _SELECTOR.match(character):
        return not _SELECTOR.match(before) and before not in (NON_JOINER, JOINER)
    if character == ZERO_WIDTH_SPACE:
        return bool(_UNSPACED.match(before) and _UNSPACED.match(after))
    if character not in (NON_JOINER, JOINER):
        return False
    if character == JOINER and _EMOJI.match(before) and _EMOJI.match(after) and not _SELECTOR.match(after):
        return True
    return before >= _FIRST_SHAPED and unicodedata.category(before)[0] in "LM" and not _EMOJI.match(before)
