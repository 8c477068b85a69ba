"""Print text of strangers: without control sequences for the terminal, and into pipes that the reader may close."""

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
_DIRECTIONS = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")  # they can reverse a line
_UNSAFE = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_CHARACTERS_PER_CELL = 4  # combining marks take no cell, so the number of characters is limited too


def to_line(text: str, cells: int) -> str:
    """Return the text as one line of at most `cells` cells, without control sequences."""
    head = text[: max(4096, cells * 16)]  # no need to clean text far beyond the line
    if not head.isprintable():
        head = printable(_DIRECTIONS.sub("", _ESCAPES.sub("", head)))
    line = " ".join(head.split())
    short = line[: cells * _CHARACTERS_PER_CELL]
    if len(short) == len(line) and cell_len(line) <= cells:
        return line
    return set_cell_size(short, min(cell_len(short), cells - 1)).rstrip() + "…"


def check_utf8(name: str, text: str | None) -> None:
    """Raise InputError if the text was typed in another encoding: it could not be compared with stored text."""
    if any("\ud800" <= character <= "\udfff" for character in text or ""):
        raise InputError(f"{name} is not valid UTF-8. Check the encoding of your terminal.")


def safe_json(value: Any) -> str:
    """Return JSON on one line: readable in every language, without control sequences."""
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(value, ensure_ascii=False, default=str))


def print_rich(console: Console, content: RenderableType, soft_wrap: bool = True) -> None:
    """Print as rich does, but through sys.stdout, so that `ignore_closed_pipe` sees a closed pipe."""
    with console.capture() as captured:
        console.print(content, soft_wrap=soft_wrap)
    sys.stdout.write(captured.get())


@contextmanager
def ignore_closed_pipe() -> Iterator[None]:
    """End the printing without an error if the reader, such as `head`, closes the pipe."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        with open(os.devnull, "w") as devnull:  # what is left in the buffer must not raise at exit
            os.dup2(devnull.fileno(), sys.stdout.fileno())


def print_note(sentence: str) -> None:
    """Print a line on standard error, next to the result."""
    error_screen().print(Text(f"tidings: {printable(sentence)}"), soft_wrap=True)
