"""`tidings demo`: match generated posts live and show the matches."""

from __future__ import annotations

import queue
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidings.cli.console import screen
from tidings.errors import OutputError

if TYPE_CHECKING:
    from tidings.cli.demo_screen import DemoScreen
    from tidings.demo.feed import DemoFeed
    from tidings.demo.live_query import LiveQuery

    MatchQueue = queue.SimpleQueue[list[tuple[str, int]]]

HELP = """Show a live demonstration: standing queries match generated posts as they arrive. It ends on its own.

It needs no network. With --write it only saves posts and subscriptions to try."""
EXAMPLES = """[bold]Examples[/]

tidings demo

tidings demo --write sample [dim]# posts.jsonl and subscriptions.txt[/]

tidings match sample/posts.jsonl --subscriptions sample/subscriptions.txt --out matches.csv"""
POSTS_PER_SECOND = 300
_SAMPLE_POSTS = 20_000
_POLL_S = 0.2


def demo(
    write: Annotated[
        Path | None,
        typer.Option(
            "--write", metavar="DIR", help="Only save a sample for `tidings match` to DIR.", show_default=False
        ),
    ] = None,
    seconds: Annotated[
        float, typer.Option("--seconds", metavar="S", min=1, max=3600, hidden=True, help="Duration in seconds.")
    ] = 20,
) -> None:
    if write is not None:
        _write_sample(write)
    else:
        _run(seconds)


def _write_sample(folder: Path) -> None:
    from tidings.demo.feed import write_sample

    try:
        posts, subscriptions = write_sample(folder, _SAMPLE_POSTS)
    except OSError as error:
        raise OutputError(f"{folder}: the sample cannot be written ({error.strerror or error}).") from error
    console = screen()
    console.print(f"{posts}: {_SAMPLE_POSTS:,} posts", markup=False)
    console.print(f"{subscriptions}: one query per line", markup=False)


def _run(seconds: float) -> None:
    """Give Spark the posts file by file; matches come back through a queue."""
    from tidings.cli.demo_screen import DemoScreen
    from tidings.demo.feed import DemoFeed, demo_posts, demo_subscriptions
    from tidings.demo.queries import DEMO_QUERIES

    posts = demo_posts(int(POSTS_PER_SECOND * seconds))
    display = DemoScreen(DEMO_QUERIES, posts)
    matches: MatchQueue = queue.SimpleQueue()
    with tempfile.TemporaryDirectory(prefix="tidings-demo-") as work, display.status_line(POSTS_PER_SECOND):
        arriving = Path(work, "posts")
        arriving.mkdir()
        feed = DemoFeed(arriving, posts, POSTS_PER_SECOND)
        from tidings.demo.live_query import live_query  # loads Spark; the screen already shows what happens

        with live_query(arriving, demo_subscriptions(), matches.put, Path(work)) as live:
            feed.send()
            live.process_all()  # the first batch waits for the workers
            _show_matches(feed, live, matches, display)
    display.print_totals(feed.sent)


def _show_matches(feed: DemoFeed, live: LiveQuery, matches: MatchQueue, display: DemoScreen) -> None:
    """Show matches until all posts have arrived and are matched."""
    display.begin(feed.sent)
    feed.start()
    try:
        while feed.is_alive():
            time.sleep(_POLL_S)
            live.check()
            _show_all(matches, display)
            display.progress(feed.sent)
    finally:
        feed.stop()
    live.process_all()
    _show_all(matches, display)


def _show_all(matches: MatchQueue, display: DemoScreen) -> None:
    while not matches.empty():
        display.show(matches.get())
