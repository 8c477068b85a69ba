"""`tidings demo`: posts the project makes itself, matched live by Spark, on the screen as it happens."""

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
    from tidings.demo.feed import Feed
    from tidings.demo.live_query import LiveMatching

    Found = queue.SimpleQueue[list[tuple[str, int]]]

HELP = """Watch standing queries find posts as they arrive: a live demonstration that ends by itself.

The posts are made up, so it needs no network. With --write it only saves posts and subscriptions to try yourself."""
EXAMPLES = """[bold]Examples[/]

tidings demo

tidings demo --write sample [dim]# posts.jsonl and subscriptions.txt[/]

tidings match sample/posts.jsonl --subscriptions sample/subscriptions.txt --out matches.csv"""
RATE = 300
_SAMPLE_POSTS = 20_000
_LOOK_SECONDS = 0.2


def demo(
    write: Annotated[
        Path | None,
        typer.Option("--write", metavar="DIR", help="Save a sample to try `tidings match` on.", show_default=False),
    ] = None,
    seconds: Annotated[float, typer.Option("--seconds", min=1, max=3600, hidden=True)] = 20,
) -> None:
    """Run the demonstration, or write its sample."""
    if write is not None:
        _write(write)
    else:
        _run(seconds)


def _write(folder: Path) -> None:
    from tidings.demo.feed import write_sample

    try:
        posts, subscriptions = write_sample(folder, _SAMPLE_POSTS)
    except OSError as error:
        raise OutputError(f"{folder}: the sample could not be written ({error.strerror or error}).") from error
    console = screen()
    console.print(f"{posts}: {_SAMPLE_POSTS:,} posts", markup=False)
    console.print(f"{subscriptions}: one query a line", markup=False)


def _run(seconds: float) -> None:
    """Spark is given the posts file by file; what it finds comes back through a queue, to be shown here."""
    from tidings.cli.demo_screen import DemoScreen
    from tidings.demo.feed import Feed, demo_posts, demo_subscriptions
    from tidings.demo.queries import DEMO_QUERIES

    posts = demo_posts(int(RATE * seconds))
    shown = DemoScreen(DEMO_QUERIES, posts)
    found: Found = queue.SimpleQueue()
    with tempfile.TemporaryDirectory(prefix="tidings-demo-") as work, shown.opened(RATE):
        arriving = Path(work, "posts")
        arriving.mkdir()
        feed = Feed(arriving, posts, RATE)
        from tidings.demo.live_query import live_matching  # when the screen says already what is going on

        with live_matching(arriving, demo_subscriptions(), found.put, Path(work)) as live:
            feed.send()
            live.catch_up()  # the first batch waits for the workers; afterwards matches come at once
            _watch(feed, live, found, shown)
    shown.farewell(feed.sent)


def _watch(feed: Feed, live: LiveMatching, found: Found, shown: DemoScreen) -> None:
    """Until all posts have arrived and all their matches are shown."""
    shown.begin(feed.sent)
    feed.start()
    try:
        while feed.is_alive():
            time.sleep(_LOOK_SECONDS)
            live.check()
            _show_all(found, shown)
            shown.progress(feed.sent)
    finally:
        feed.stop()
    live.catch_up()
    _show_all(found, shown)


def _show_all(found: Found, shown: DemoScreen) -> None:
    while not found.empty():
        shown.show(found.get())
