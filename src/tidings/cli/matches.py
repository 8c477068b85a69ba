"""`tidings matches`: print the matches of a subscription, from a cursor on, and as they arrive."""

from __future__ import annotations

import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from tidings.cli.console import screen
from tidings.cli.options.state import DEFAULT_STATE, StateOption, WorkDirOption, locate_state
from tidings.cli.output import ignore_closed_pipe, print_note, print_rich, safe_json, to_line
from tidings.text.csv_cells import neutralize_cell

if TYPE_CHECKING:
    from tidings.store import Store, StoredMatch

HELP = """Print the matches of a subscription, in the order stored: cursor, post id, time, author, text and link.

The last line, on standard error, gives the cursor to continue from without missing or repeating a match."""
EXAMPLES = """[bold]Examples[/]

tidings matches 3 [dim]# the first 100[/]

tidings matches 3 --since 1200 --limit 20

tidings matches 3 --follow [dim]# and new ones, until Ctrl-C[/]

tidings matches 3 --follow --json | jq .text"""
_DEFAULT_LIMIT = 100
_PAGE_ROWS = 1_000
_POLL_S = 0.3
_TEXT_CELLS, _MIN_TEXT_CELLS = 100, 30
_FIELD_CELLS, _LINK_CELLS = 40, 300


def matches(
    subscription: Annotated[int, typer.Argument(metavar="ID", help="Id of the subscription.", show_default=False)],
    since: Annotated[int, typer.Option("--since", metavar="CURSOR", help="Only matches after this cursor.")] = 0,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit", metavar="N", min=1, help="Maximum number of matches.", show_default="100; none with --follow"
        ),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Also print new matches, until Ctrl-C.")] = False,
    owner: Annotated[
        str | None,
        typer.Option("--owner", metavar="NAME", help="Only if it belongs to this owner.", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print complete matches as JSON Lines.")] = False,
    state: StateOption = DEFAULT_STATE,
    work_dir: WorkDirOption = None,
) -> None:
    with locate_state(state, work_dir).open_existing() as store, ignore_closed_pipe():
        reader = _MatchReader(store, subscription, owner, since)
        print_match = _print_json if as_json else _line_printer(screen())
        with _stop_on_signal() if follow else nullcontext():
            for match in reader.follow(limit) if follow else reader.read_stored(limit or _DEFAULT_LIMIT):
                print_match(match)
                reader.cursor = match.cursor
        sys.stdout.flush()
        _print_cursor(reader)


class _MatchReader:
    """Reads the matches of one subscription page by page; `cursor` is that of the last match printed."""

    def __init__(self, store: Store, subscription: int, owner: str | None, since: int) -> None:
        self._store, self._subscription, self._owner = store, subscription, owner
        self.since = self.cursor = since
        self.has_more = False

    def _read(self, limit: int) -> list[StoredMatch]:
        return self._store.matches.since(self._subscription, self.cursor, limit, self._owner)

    def read_stored(self, limit: int) -> Iterator[StoredMatch]:
        """Yield the stored matches, up to the limit."""
        left = limit
        while page := self._read(min(left, _PAGE_ROWS) + 1):
            shown = page[: min(left, _PAGE_ROWS)]
            yield from shown
            left -= len(shown)
            self.has_more = len(page) > len(shown)
            if not left or not self.has_more:
                return

    def follow(self, limit: int | None) -> Iterator[StoredMatch]:
        """Yield stored and new matches, up to the limit if there is one."""
        left = limit
        while left is None or left > 0:
            page = self._read(_PAGE_ROWS if left is None else min(left, _PAGE_ROWS))
            yield from page
            sys.stdout.flush()
            left = None if left is None else left - len(page)
            if not page:
                _wait_for_poll()


def _wait_for_poll() -> None:
    """Sleep until the next poll. Raises BrokenPipeError if the reader of standard output is gone."""
    try:
        pipe = select.poll()
        pipe.register(sys.stdout.fileno(), 0)  # 0: only its end
    except (OSError, ValueError):  # standard output is not a file
        time.sleep(_POLL_S)
        return
    if pipe.poll(_POLL_S * 1000):
        raise BrokenPipeError


class _Stopped(BaseException):
    """SIGINT or SIGTERM arrived."""


@contextmanager
def _stop_on_signal() -> Iterator[None]:
    """Leave the block on Ctrl-C or SIGTERM, without an error."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, _stop) for number in numbers]
    try:
        yield
    except _Stopped:
        pass
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def _stop(number: int, frame: FrameType | None) -> None:
    for each in (signal.SIGINT, signal.SIGTERM):  # ignore the next ones
        signal.signal(each, signal.SIG_IGN)
    raise _Stopped


def _print_json(match: StoredMatch) -> None:
    print(safe_json(asdict(match)))


def _line_printer(console: Console) -> Callable[[StoredMatch], None]:
    """Return a function that prints styled lines on a terminal, else fields separated by tabs."""
    if not console.is_terminal:
        return lambda match: print("\t".join(_cells(match)))
    return lambda match: print_rich(console, _styled_line(match, console.width))


def _cells(match: StoredMatch) -> list[str]:
    """Return the fields for a pipe; values, but not the placeholder, are neutralized for spreadsheets."""
    return [*_fields(match, neutralize_cell), neutralize_cell(_text(match, _TEXT_CELLS)), _link(match)]


def _styled_line(match: StoredMatch, width: int) -> Text:
    *fields, author = _fields(match)
    link = _link(match)
    used = sum(map(len, (*fields, author, link))) + 10
    text = _text(match, max(width - used, _MIN_TEXT_CELLS))
    return Text.assemble(("  ".join(fields), "dim"), "  ", (author, "bold"), "  ", text, "  ", (link, "cyan"))


def _fields(match: StoredMatch, escape: Callable[[str], str] = str) -> list[str]:
    """Return cursor, post id, time and author without control characters; `-` for one that is missing."""
    values = (to_line(str(value or ""), _FIELD_CELLS) for value in (match.time, match.author))
    post_id = escape(to_line(str(match.post_id), _FIELD_CELLS))
    return [str(match.cursor), post_id, *(escape(value) if value else "-" for value in values)]


def _text(match: StoredMatch, cells: int) -> str:
    return to_line(match.text or match.title or "", cells)


def _link(match: StoredMatch) -> str:
    return to_line(match.link or "", _LINK_CELLS)


def _print_cursor(reader: _MatchReader) -> None:
    """Print the cursor to continue from, and whether there are more matches."""
    if reader.cursor == reader.since and not reader.has_more:
        sentence = f"no matches after cursor {reader.since}; continue later with --since {reader.cursor}"
    else:
        more = "there are more; " if reader.has_more else ""
        sentence = f"{more}continue with --since {reader.cursor}"
    print_note(sentence)
