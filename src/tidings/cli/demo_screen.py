"""The screen of the demonstration: matches as they arrive, a status line, and totals at the end."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.status import Status
from rich.table import Table
from rich.text import Text

from tidings.cli.console import printable, screen
from tidings.matching.explain import explain
from tidings.text.reference_analyzer import decode_entities

_SHOWN_PER_BATCH = 4  # as many as a person can read; all matches are counted
_COLOURS = ("cyan", "magenta", "yellow", "green", "blue", "bright_red")
_PRINT_INTERVAL_S = 5.0


class DemoScreen:
    """Prints matches above a status line; without a terminal, plain lines and a status every few seconds."""

    def __init__(self, queries: dict[str, str], posts: list[dict[str, Any]], console: Console | None = None) -> None:
        self._console = console or screen()
        self._queries = queries
        self._posts = posts
        self._names = list(queries)
        self._status: Status | None = None
        self._start = self._printed_at = time.monotonic()
        self._early = 0
        self.counts: Counter[str] = Counter()

    @contextmanager
    def status_line(self, rate: int) -> Iterator[None]:
        """Print the queries, then show a status line while the block runs."""
        self._print_queries(rate)
        if self._console.is_terminal:
            self._status = self._console.status("Starting Spark …")
            self._status.start()
        try:
            yield
        finally:
            if self._status is not None:
                self._status.stop()

    def _print_queries(self, rate: int) -> None:
        self._console.print(Text.assemble(("Tidings", "bold"), f": {len(self._queries)} standing queries"))
        table = Table.grid(padding=(0, 2))
        for name, query in self._queries.items():
            table.add_row("", Text(name, self._colour(name)), Text(query, "dim"))
        self._console.print(table)
        self._console.print(f"Generated posts arrive, {rate} per second, as soon as Spark has started.\n")

    def begin(self, early: int) -> None:
        """Start the clock; `early` posts arrived while Spark was starting."""
        self._early = early
        self._start = self._printed_at = time.monotonic()

    def show(self, matches: list[tuple[str, int]]) -> None:
        """Count the matches of a batch and show a few, of as many subscriptions as possible."""
        self.counts.update(name for name, _ in matches)
        chosen = _select_varied(matches)
        for name, post in chosen:
            self._show_match(name, self._posts[post - 1])
        if more := len(matches) - len(chosen):
            self._console.print(Text(f"  … and {more} more", "dim"))

    def progress(self, posts: int) -> None:
        """Update the status line."""
        seconds = max(time.monotonic() - self._start, 0.001)
        rate = (posts - self._early) / seconds
        line = f"{posts:,} posts, {rate:,.0f} per second · {self.counts.total():,} matches · {seconds:.0f} s"
        if self._status is not None:
            self._status.update(line)
        elif time.monotonic() - self._printed_at > _PRINT_INTERVAL_S:
            self._printed_at = time.monotonic()
            self._console.print(f"-- {line}")

    def print_totals(self, posts: int) -> None:
        """Print totals and what to try next."""
        self._console.print(f"\n{posts:,} posts, {self.counts.total():,} matches:", style="bold")
        table = Table.grid(padding=(0, 2))
        for name, count in self.counts.most_common():
            table.add_row("", Text(f"{count:,}", justify="right"), Text(name, self._colour(name)))
        self._console.print(table)
        self._console.print("\nWhat to try next:", style="bold")
        for line in _next_steps(_command()):
            self._console.print(Text(f"  {line}"), soft_wrap=True)

    def _show_match(self, name: str, post: dict[str, Any]) -> None:
        query, colour = self._queries[name], self._colour(name)
        author = f"@{post['author']}  " if "author" in post else ""
        body = highlight(query, post["text"], post.get("lat"), post.get("lon"), f"bold reverse {colour}")
        self._console.print(Text.assemble((name, f"bold {colour}"), ("  " + query, "dim")))
        self._console.print(Padding(Text.assemble((author, "dim"), body), (0, 0, 0, 4), expand=False))

    def _colour(self, name: str) -> str:
        return _COLOURS[self._names.index(name) % len(_COLOURS)]


def highlight(query: str, text: str, lat: float | None, lon: float | None, style: str) -> Text:
    """Return the decoded text with the matched literals of the query styled."""
    shown = Text(printable(decode_entities(text)))
    for conjunction in explain(query, None, text, lat, lon).conjunctions:
        for literal in conjunction.literals if conjunction.is_match else ():
            if literal.start is not None and not literal.is_forbidden:
                shown.stylize(style, literal.start, literal.end)
    return shown


def _select_varied(matches: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    """Select a few matches of different subscriptions, rarest first, each post once."""
    matches = list(matches)
    counts = Counter(name for name, _ in matches)
    selected: dict[str, tuple[str, int]] = {}
    for name, post in sorted(matches, key=lambda match: (counts[match[0]], match[1])):
        if all(post != other for _, other in selected.values()):
            selected.setdefault(name, (name, post))
    return sorted(list(selected.values())[:_SHOWN_PER_BATCH], key=lambda match: match[1])


def _command() -> str:
    """Return how to call this program from here."""
    if shutil.which("tidings"):
        return "tidings"
    return "python -m tidings.cli.main" if sys.argv[0].endswith(".py") else os.path.relpath(sys.argv[0])


def _next_steps(tidings: str) -> list[str]:
    return [
        f"{tidings} demo --write sample",
        f"{tidings} match sample/posts.jsonl --subscriptions sample/subscriptions.txt --out matches.csv",
        f"{tidings} explain 'storm OR \"heavy rain\" -umbrella' --text 'Heavy rain in London, no storm'",
    ]
