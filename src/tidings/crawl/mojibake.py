"""Repair text that was encoded as UTF-8 twice: `â€™` instead of `’`.

A text is repaired only if that is certain: all its characters are bytes of Windows-1252, these bytes are valid UTF-8,
and the result has no controls. Correct text almost never fulfils this: one correct `é`, `“` or Cyrillic letter anywhere
in it is not valid UTF-8.
"""

from __future__ import annotations

import re

_ROUNDS = 2  # some feeds encode three times
_BYTES = bytes(range(0x80, 0x100))
# Bytes that Windows-1252 does not define are the same in Latin-1.
_CHARACTERS = {byte: bytes([byte]).decode("cp1252", "ignore") or chr(byte) for byte in _BYTES}
_TO_BYTES = {ord(character): byte for byte, character in _CHARACTERS.items()} | {byte: byte for byte in _BYTES}
_CONTINUATION = "[" + "".join(sorted({re.escape(_CHARACTERS[byte]) + chr(byte) for byte in range(0x80, 0xC0)})) + "]"
_ENCODED = re.compile(f"[\xc2-\xdf]{_CONTINUATION}|[\xe0-\xef]{_CONTINUATION}{{2}}|[\xf0-\xf4]{_CONTINUATION}{{3}}")
_CERTAIN = re.compile(f"[\xc2\xc3][\xa1-\xbf]|[\xe2-\xef]{_CONTINUATION}{{2}}|[\xf0-\xf4]{_CONTINUATION}{{3}}")
"""A sequence that correct text does not have; others, such as `Ã” or `Ã` and a no-break space, must occur twice."""
_CONTROLS = re.compile("[\x80-\x9f]")


def repair_mojibake(text: str) -> str:
    """Return the text with double encoding undone, or the same text if that is not certain."""
    for _ in range(_ROUNDS):
        if text.isascii() or not _is_certain(text):
            break
        try:
            decoded = text.translate(_TO_BYTES).encode("latin-1").decode("utf-8")
        except UnicodeError:
            break
        if _CONTROLS.search(decoded):
            break
        text = decoded
    return text


def _is_certain(text: str) -> bool:
    if _CERTAIN.search(text):
        return True
    found = _ENCODED.finditer(text)
    return next(found, None) is not None and next(found, None) is not None
