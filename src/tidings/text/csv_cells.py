"""Text of strangers in CSV: spreadsheets run a cell that begins with `=`, `+`, `-` or `@` as a formula.

Such a text gets an apostrophe in front, as OWASP recommends; plain numbers stay numbers. A text that begins with
apostrophes and one of these characters gets one more, so that `restore_cell` returns exactly what was written.
"""

from __future__ import annotations

import re

_STARTS = "'*[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]"  # with the full-width forms
FORMULA = f"^{_STARTS}"  # valid for Python, Java and RE2
NEUTRALIZED = f"^'({_STARTS})"
NUMBER = r"^[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]+)?$"
_FORMULA, _NUMBER = re.compile(FORMULA), re.compile(NUMBER)
_NEUTRALIZED = re.compile(NEUTRALIZED)


def neutralize_cell(text: str) -> str:
    """Return the text so that a spreadsheet shows it instead of running it."""
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def restore_cell(text: str) -> str:
    """Undo `neutralize_cell`."""
    return _NEUTRALIZED.sub(r"\1", text, count=1)
