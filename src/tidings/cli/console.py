"""Consoles of the commands: results go to standard output, everything else to standard error."""

from __future__ import annotations

import sys
import unicodedata
from typing import TextIO

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from tidings.errors import QueryError, TidingsError

_MIN_WIDTH, _MAX_WIDTH = 40, 120
_UNWRAPPED_WIDTH = 10_000


def screen() -> Console:
    """Return a console on the current standard output; it wraps lines only on a terminal."""
    return _console(sys.stdout)


def error_screen() -> Console:
    """Return a console on the current standard error."""
    return _console(sys.stderr)


def _console(file: TextIO) -> Console:
    console = Console(file=file, highlight=False)
    if not console.is_terminal:
        console.width = _UNWRAPPED_WIDTH
    return console


def printable(text: str) -> str:
    """Return the text on one line, without control characters."""
    return "".join(
        " " if unicodedata.category(character) in ("Cc", "Zl", "Zp", "Cs") else character for character in text
    )


def print_sentence(sentence: str) -> None:
    """Print an error as one line on standard error."""
    error_screen().print(Text.assemble(("tidings: ", "bold red"), printable(sentence)))


def print_error(error: TidingsError, query: str | None = None) -> None:
    """Print the message; for an invalid query also the query with a caret below the error."""
    print_sentence(str(error))
    if isinstance(error, QueryError) and query:
        console = error_screen()
        for line in caret_lines(query, error.position, min(console.width, _MAX_WIDTH)):
            console.print(Text("  " + line))


def caret_lines(query: str, position: int, width: int) -> tuple[str, str]:
    """Return the part of the query around the position that fits, and a line with a caret below the position."""
    shown, cells = printable(query), max(width, _MIN_WIDTH) - 4
    before, after = shown[:position], shown[position:]
    if cell_len(before) > cells * 2 // 3:
        while cell_len(before) > cells // 2:
            before = before[max(1, len(before) // 20) :]
        before = "…" + before
    if cell_len(before + after) > cells:
        after = set_cell_size(after, cells - cell_len(before) - 1).rstrip() + "…"
    return before + after, " " * cell_len(before) + "^"
