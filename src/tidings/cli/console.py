"""Where the commands print: results on standard output, everything else on standard error."""

from __future__ import annotations

import sys
import unicodedata
from typing import TextIO

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from tidings.errors import QueryError, TidingsError

_NARROWEST, _WIDEST = 40, 120
_UNBROKEN = 10_000


def screen() -> Console:
    """Standard output, as it is now; lines are never broken when it is not a terminal."""
    return _console(sys.stdout)


def error_screen() -> Console:
    """Standard error, as it is now."""
    return _console(sys.stderr)


def _console(file: TextIO) -> Console:
    console = Console(file=file, highlight=False)
    if not console.is_terminal:
        console.width = _UNBROKEN
    return console


def printable(text: str) -> str:
    """The text on one line, and without anything that would command the terminal."""
    return "".join(
        " " if unicodedata.category(character) in ("Cc", "Zl", "Zp", "Cs") else character for character in text
    )


def say_error(sentence: str) -> None:
    """One line on standard error, with our name in front."""
    error_screen().print(Text.assemble(("tidings: ", "bold red"), printable(sentence)))


def show_error(error: TidingsError, query: str | None = None) -> None:
    """The sentence; for a refused query also the query with a caret under the place."""
    say_error(str(error))
    if isinstance(error, QueryError) and query:
        console = error_screen()
        for line in caret(query, error.position, min(console.width, _WIDEST)):
            console.print(Text("  " + line))


def caret(query: str, position: int, width: int) -> tuple[str, str]:
    """The part of the query around the position that fits, and a caret that stands under the position."""
    shown, room = printable(query), max(width, _NARROWEST) - 4
    before, after = shown[:position], shown[position:]
    if cell_len(before) > room * 2 // 3:
        while cell_len(before) > room // 2:
            before = before[max(1, len(before) // 20) :]
        before = "…" + before
    if cell_len(before + after) > room:
        after = set_cell_size(after, room - cell_len(before) - 1).rstrip() + "…"
    return before + after, " " * cell_len(before) + "^"
