"""`tidings matches`: what a subscription has found, from a cursor on, and as it arrives."""

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
from tidings.cli.options.state import DEFAULT_STATE, StateOption, WorkOption, state_at
from tidings.cli.output import closable, emit, one_line, safe_json, say

if TYPE_CHECKING:
    from tidings.store import Store, StoredMatch

HELP = """Print the matches of a subscription: cursor, post id, time, author, text and link, as they were stored.

The last line, on standard error, tells the cursor to go on from: who continues there misses none, sees none twice."""
EXAMPLES = """[bold]Examples[/]

tidings matches 3 [dim]# the first hundred[/]

tidings matches 3 --since 1200 --limit 20

tidings matches 3 --follow [dim]# and those to come, until Ctrl-C[/]

tidings matches 3 --follow --json | jq .text"""
_LIMIT = 100
_PAGE = 1_000
_POLL_SECONDS = 0.3
_TEXT_CELLS, _NARROWEST_TEXT = 100, 30
_FIELD_CELLS, _LINK_CELLS = 40, 300


def matches(
    subscription: Annotated[int, typer.Argument(metavar="ID", help="The subscription.", show_default=False)],
    since: Annotated[int, typer.Option("--since", metavar="CURSOR", help="Only those after this cursor.")] = 0,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit", metavar="N", min=1, help="At most so many.", show_default="100; with --follow no limit"
        ),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Go on with those to come, until Ctrl-C.")] = False,
    owner: Annotated[
        str | None, typer.Option("--owner", metavar="NAME", help="Only if it is this owner's.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print whole matches as JSON Lines.")] = False,
    state: StateOption = DEFAULT_STATE,
    work: WorkOption = None,
) -> None:
    """Print them, then tell the cursor to go on from; a closed pipe ends it without a word."""
    with state_at(state, work).open() as store, closable():
        reading = _Reading(store, subscription, owner, since)
        show = _show_json if as_json else _shower(screen())
        with _until_stopped() if follow else nullcontext():
            for match in reading.follow(limit) if follow else reading.stored(limit or _LIMIT):
                show(match)
                reading.cursor = match.cursor
        sys.stdout.flush()
        _tell(reading)


class _Reading:
    """Reads the matches of one subscription page by page; `cursor` is that of the last one shown."""

    def __init__(self, store: Store, subscription: int, owner: str | None, since: int) -> None:
        self._store, self._subscription, self._owner = store, subscription, owner
        self.since = self.cursor = since
        self.has_more = False

    def _read(self, limit: int) -> list[StoredMatch]:
        return self._store.matches(self._subscription, self.cursor, limit, self._owner)

    def stored(self, limit: int) -> Iterator[StoredMatch]:
        """Up to so many of those that are there."""
        left = limit
        while page := self._read(min(left, _PAGE) + 1):
            shown = page[: min(left, _PAGE)]
            yield from shown
            left -= len(shown)
            self.has_more = len(page) > len(shown)
            if not left or not self.has_more:
                return

    def follow(self, limit: int | None) -> Iterator[StoredMatch]:
        """Those that are there and those to come; for ever, if not limited."""
        left = limit
        while left is None or left > 0:
            page = self._read(_PAGE if left is None else min(left, _PAGE))
            yield from page
            sys.stdout.flush()
            left = None if left is None else left - len(page)
            if not page:
                _wait()


def _wait() -> None:
    """A moment; BrokenPipeError as soon as nobody reads standard output any more."""
    try:
        ends = select.poll()
        ends.register(sys.stdout.fileno(), 0)  # 0: nothing but the end of it
    except (OSError, ValueError):  # no file
        time.sleep(_POLL_SECONDS)
        return
    if ends.poll(_POLL_SECONDS * 1000):
        raise BrokenPipeError


class _Stopped(BaseException):
    """Somebody asked us to end."""


@contextmanager
def _until_stopped() -> Iterator[None]:
    """Ctrl-C and SIGTERM end what is inside, and nothing more."""
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
    for each in (signal.SIGINT, signal.SIGTERM):  # once is enough
        signal.signal(each, signal.SIG_IGN)
    raise _Stopped


def _show_json(match: StoredMatch) -> None:
    print(safe_json(asdict(match)))


def _shower(console: Console) -> Callable[[StoredMatch], None]:
    """Coloured lines for a terminal, fields with tabs between for everything else."""
    if not console.is_terminal:
        return lambda match: print("\t".join([*_fields(match), _text(match, _TEXT_CELLS), _link(match)]))
    return lambda match: emit(console, _coloured(match, console.width))


def _coloured(match: StoredMatch, width: int) -> Text:
    *fields, author = _fields(match)
    link = _link(match)
    used = sum(map(len, (*fields, author, link))) + 10
    text = _text(match, max(width - used, _NARROWEST_TEXT))
    return Text.assemble(("  ".join(fields), "dim"), "  ", (author, "bold"), "  ", text, "  ", (link, "cyan"))


def _fields(match: StoredMatch) -> list[str]:
    """Cursor, post id, time and author, each on one line and harmless."""
    told = (match.post_id, match.time or "-", match.author or "-")
    return [str(match.cursor), *(one_line(str(field), _FIELD_CELLS) for field in told)]


def _text(match: StoredMatch, cells: int) -> str:
    return one_line(match.text or match.title or "", cells)


def _link(match: StoredMatch) -> str:
    return one_line(match.link or "", _LINK_CELLS)


def _tell(reading: _Reading) -> None:
    """The cursor to go on from, and whether there is more."""
    if reading.cursor == reading.since and not reading.has_more:
        sentence = f"no matches after cursor {reading.since}; go on later with --since {reading.cursor}"
    else:
        more = "there are more; " if reading.has_more else ""
        sentence = f"{more}go on with --since {reading.cursor}"
    say(sentence)
