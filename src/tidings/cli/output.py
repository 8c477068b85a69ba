"""Printing what strangers wrote, into pipes that may close: harmless to a terminal, quiet when nobody reads on."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.console import Console, RenderableType
from rich.text import Text

from tidings.cli.console import error_screen, printable
from tidings.errors import InputError

# CSI …, OSC … (ended by BEL or ST), other strings up to ST, and two-character sequences; 8-bit forms too.
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
)
_DIRECTIONS = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")  # they can turn a line around
_UNSAFE = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_CHARACTERS_A_CELL = 4  # combining marks take no cell, so the characters are bounded too


def one_line(text: str, cells: int) -> str:
    """The text on one line of at most so many cells, without anything that would command a terminal."""
    head = text[: max(4096, cells * 16)]  # what is far beyond the line need not be cleaned
    if not head.isprintable():
        head = printable(_DIRECTIONS.sub("", _ESCAPES.sub("", head)))
    line = " ".join(head.split())
    short = line[: cells * _CHARACTERS_A_CELL]
    if len(short) == len(line) and cell_len(line) <= cells:
        return line
    return set_cell_size(short, min(cell_len(short), cells - 1)).rstrip() + "…"


def check_utf8(name: str, text: str | None) -> None:
    """InputError where bytes were typed that are no text: nothing that is stored could be compared with them."""
    if any("\ud800" <= character <= "\udfff" for character in text or ""):
        raise InputError(f"{name} is not valid UTF-8; check the encoding of your terminal.")


def safe_json(value: Any) -> str:
    """JSON on one line, readable in every language, in which nothing commands a terminal."""
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(value, ensure_ascii=False, default=str))


def emit(console: Console, what: RenderableType, soft_wrap: bool = True) -> None:
    """Print it as rich would, but let a closed pipe be noticed by `closable`."""
    with console.capture() as captured:
        console.print(what, soft_wrap=soft_wrap)
    sys.stdout.write(captured.get())


@contextmanager
def closable() -> Iterator[None]:
    """What is printed inside may end early because its reader went away, as `head` does: that is no failure."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        with open(os.devnull, "w") as nowhere:  # what is still in the buffer must not complain at exit
            os.dup2(nowhere.fileno(), sys.stdout.fileno())


def say(sentence: str) -> None:
    """A line beside the result, on standard error."""
    error_screen().print(Text(f"tidings: {printable(sentence)}"), soft_wrap=True)
