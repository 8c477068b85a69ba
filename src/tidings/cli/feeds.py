"""`tidings feeds add`, `list`, `remove`, `import`, `export`, `measure`: which feeds are crawled, and how they are."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidings.cli.options.allow import AllowOption
from tidings.cli.options.state import DEFAULT_STATE, StateOption, WorkOption, state_at
from tidings.cli.output import closable, one_line, safe_json, say
from tidings.cli.subscriptions import OwnerOption
from tidings.errors import InputError, OutputError

if TYPE_CHECKING:
    from tidings.store import Feed

app = typer.Typer(help="The feeds that `tidings crawl` visits: add them, see how they are, exchange lists of them.")
_SHOWN = 20

ADD_HELP = "Follow feeds. The address may be that of a page: the crawler finds the feed it points to."
ADD_EXAMPLES = """[bold]Examples[/]

tidings feeds add https://example.com/feed.xml

tidings feeds add example.com/blog --title "The blog" --owner ann"""
IMPORT_HELP = "Follow all feeds of an OPML file, as feed readers export it; - reads standard input."
EXPORT_HELP = "Write the feeds as OPML, to a file or to standard output."
MEASURE_HELP = """Measure how far the hosts of the feeds are from here: what connecting takes, the fastest of three.

With --out the entries of other sites in the file stay, so that one file gathers them all. `tidings crawl --latencies
FILE` then visits feeds from the nearest site that has room. Addresses that lead inside are not probed unless --allow
names them."""
MEASURE_EXAMPLES = """[bold]Examples[/]

tidings feeds measure --site frankfurt --out latencies.csv [dim]# on a machine at each site[/]

tidings crawl --latencies latencies.csv --master spark://…"""
Whose = Annotated[str, typer.Option("--owner", metavar="NAME", help="Who follows them.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("add", help=ADD_HELP, epilog=ADD_EXAMPLES)
def add(
    urls: Annotated[list[str], typer.Argument(metavar="URL...", help="Feeds, or pages that have one.")],
    title: Annotated[str, typer.Option("--title", help="What to call it, instead of what it calls itself.")] = "",
    owner: Whose = "",
    as_json: JsonOption = False,
    state: StateOption = DEFAULT_STATE,
    work: WorkOption = None,
) -> None:
    """All of them or none."""
    from tidings.net.urls import checked_url

    addresses = [checked_url(url) for url in urls]
    place = state_at(state, work)
    with place.make() as store:
        for address in addresses:
            feed = store.add_feed(address, owner, title)
            print(safe_json({"id": feed, "url": address}) if as_json else feed)
    if not as_json and sys.stdout.isatty():
        say(f"it is visited by: tidings crawl{place.option}")


@app.command("list", help="List the feeds, with their health.")
def list_feeds(
    owner: OwnerOption = None,
    as_json: JsonOption = False,
    state: StateOption = DEFAULT_STATE,
    work: WorkOption = None,
) -> None:
    """One a line."""
    from dataclasses import asdict

    place = state_at(state, work)
    is_empty = True
    with place.open() as store, closable():
        for feed in store.feeds(owner):
            print(safe_json(asdict(feed)) if as_json else _line(feed))
            is_empty = False
    if is_empty and not as_json:
        say(f"there are no feeds; add one with `tidings feeds add URL{place.option}`")


def _line(feed: Feed) -> str:
    health = one_line(feed.error, 60) if feed.error else f"{feed.articles:,} articles"
    return f"{feed.id:>6}  {feed.state:7}  {one_line(feed.url, 70)}  {one_line(feed.title, 40) or '-'}  {health}"


@app.command("remove", help="Follow a feed no longer. With the last who follow it, the feed goes.")
def remove(
    feed: Annotated[int, typer.Argument(metavar="ID", help="The feed.", show_default=False)],
    owner: OwnerOption = None,
    state: StateOption = DEFAULT_STATE,
    work: WorkOption = None,
) -> None:
    """Remove one."""
    with state_at(state, work).open() as store:
        store.remove_feed(feed, owner)
    print(f"Feed {feed} is removed.")


@app.command("import", help=IMPORT_HELP)
def import_feeds(
    file: Annotated[str, typer.Argument(metavar="FILE", help="An OPML file, or -.")],
    owner: Whose = "",
    as_json: JsonOption = False,
    state: StateOption = DEFAULT_STATE,
    work: WorkOption = None,
) -> None:
    """Every feed that can be followed; the others are told with the reason."""
    from tidings.crawl.opml import read_opml

    listed = read_opml(_bytes(file))
    if not listed:
        raise InputError(f"{file}: there is no feed in this list.")
    added, refused = 0, []
    with state_at(state, work).make() as store:
        for one in listed:
            try:
                store.add_feed(one.url, owner, one.title)
                added += 1
            except InputError as error:
                refused.append({"url": one.url, "reason": str(error)})
    if as_json:
        print(safe_json({"added": added, "refused": refused}))
        return
    for line in refused[:_SHOWN]:
        say(line["reason"])
    print(f"{added:,} feeds added" + (f"; {len(refused):,} left out" if refused else ""))


def _bytes(file: str) -> bytes:
    if file == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise InputError(f"{file}: it cannot be read ({error.strerror}).") from None


@app.command("export", help=EXPORT_HELP)
def export(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="Where to.", show_default="standard output")
    ] = None,
    owner: OwnerOption = None,
    state: StateOption = DEFAULT_STATE,
    work: WorkOption = None,
) -> None:
    """Titles and sites too."""
    from tidings.crawl.opml import Listed, write_opml

    with state_at(state, work).open() as store:
        document = write_opml(Listed(one.url, one.title, one.site) for one in store.feeds(owner))
    if file is None:
        with closable():
            sys.stdout.write(document.decode())
        return
    try:
        file.write_bytes(document)
    except OSError as error:
        raise OutputError(f"{file}: it cannot be written ({error.strerror}).") from None


@app.command("measure", help=MEASURE_HELP, epilog=MEASURE_EXAMPLES)
def measure(
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Where to (CSV).", show_default="standard output")
    ] = None,
    site: Annotated[
        str, typer.Option("--site", metavar="NAME", envvar="TIDINGS_SITE", help="What to call this place.")
    ] = "here",
    allow: AllowOption = None,
    as_json: JsonOption = False,
    state: StateOption = DEFAULT_STATE,
    work: WorkOption = None,
) -> None:
    """Connect to every host, some times; write down the fastest."""
    import asyncio

    from tidings.crawl.latency import Latencies, measure_feeds, print_latencies, read_latencies, write_latencies
    from tidings.net.allowlist import Allowed

    reached = Allowed.parse(allow or ())
    before = read_latencies(out).ms if out is not None and out.exists() else {}
    with state_at(state, work).open() as store:
        urls = [feed.url for feed in store.feeds()]
    found, hosts = asyncio.run(measure_feeds(site, urls, reached))
    others = {key: ms for key, ms in before.items() if key[0] != site}
    if out is None and not as_json:
        print_latencies(found, sys.stdout)
    elif out is not None:
        try:
            write_latencies(Latencies({**others, **found.ms}), out)
        except OSError as error:
            raise OutputError(f"{out}: it cannot be written ({error.strerror}).") from None
    told = {"site": site, "hosts": hosts, "measured": len(found.ms)}
    if as_json:
        print(safe_json({**told, "ms": {host: round(ms, 3) for (_, host), ms in sorted(found.ms.items())}}))
    else:
        say(f"{len(found.ms):,} of {hosts:,} hosts answered to {site}; crawl from near with --latencies FILE")
