"""`tidings feeds`: add, list, remove, import and export feeds; measure the latency to their hosts."""

from __future__ import annotations

import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidings.cli.options.allow import AllowOption
from tidings.cli.options.common import JsonOption, OwnerFilterOption
from tidings.cli.options.owner import check_owner
from tidings.cli.options.state import DEFAULT_STATE, StateOption, WorkDirOption, locate_state, locate_written_state
from tidings.cli.output import ignore_closed_pipe, print_note, safe_json, to_line
from tidings.errors import InputError, OutputError

if TYPE_CHECKING:
    from tidings.store import FeedRow

app = typer.Typer(help="Manage the feeds that `tidings crawl` visits.")
_MAX_REJECTED_LINES = 20

ADD_HELP = "Follow feeds. A URL may be that of a page: the crawler finds its feed."
ADD_EXAMPLES = """[bold]Examples[/]

tidings feeds add https://example.com/feed.xml

tidings feeds add example.com/blog --title "The blog" --owner ann"""
IMPORT_HELP = "Follow all feeds of an OPML file, as exported by feed readers; - reads standard input."
EXPORT_HELP = "Write the feeds as OPML to a file or to standard output."
MEASURE_HELP = """Measure the time to connect to the hosts of the feeds: the fastest of three attempts.

With --out, entries of other sites in the file are kept, so one file can collect all sites. `tidings crawl --latencies
FILE` then visits each feed from the nearest site with capacity. Private addresses are not probed unless --allow names
them."""
MEASURE_EXAMPLES = """[bold]Examples[/]

tidings feeds measure --site frankfurt --out latencies.csv [dim]# on one machine per site[/]

tidings crawl --latencies latencies.csv --master spark://…"""
FollowerOption = Annotated[str, typer.Option("--owner", metavar="NAME", help="Owner that follows the feeds.")]


@app.command("add", help=ADD_HELP, epilog=ADD_EXAMPLES)
def add(
    urls: Annotated[list[str], typer.Argument(metavar="URL...", help="Feeds, or pages with a feed.")],
    title: Annotated[str, typer.Option("--title", metavar="TEXT", help="Title to use instead of the feed's own.")] = "",
    owner: FollowerOption = "",
    as_json: JsonOption = False,
    state: StateOption = DEFAULT_STATE,
    work_dir: WorkDirOption = None,
) -> None:
    from tidings.net.urls import mask_userinfo, normalize_url

    addresses = [normalize_url(url) for url in urls]
    location = locate_written_state(state, work_dir)
    check_owner(location, owner)
    with location.open_or_create() as store:
        for address in addresses:
            feed = store.feeds.add(address, owner, title)
            print(safe_json({"id": feed, "url": mask_userinfo(address)}) if as_json else feed)
    if not as_json and sys.stdout.isatty():
        print_note(f"start visiting with: tidings crawl{location.option}")


@app.command("list", help="List the feeds with their health.")
def list_feeds(
    owner: OwnerFilterOption = None,
    as_json: JsonOption = False,
    state: StateOption = DEFAULT_STATE,
    work_dir: WorkDirOption = None,
) -> None:
    location = locate_state(state, work_dir)
    is_empty = True
    with location.open_existing() as store, ignore_closed_pipe():
        for feed in map(_mask, store.feeds.all(owner)):
            print(safe_json(asdict(feed)) if as_json else _line(feed))
            is_empty = False
    if is_empty and not as_json:
        print_note(f"no feeds; add one with `tidings feeds add URL{location.option}`")


def _mask(feed: FeedRow) -> FeedRow:
    """Return the feed without its password."""
    from tidings.net.urls import mask_userinfo

    return replace(feed, url=mask_userinfo(feed.url), given=mask_userinfo(feed.given))


def _line(feed: FeedRow) -> str:
    health = to_line(feed.error, 60) if feed.error else f"{feed.articles:,} articles"
    return f"{feed.id:>6}  {feed.state:7}  {to_line(feed.url, 70)}  {to_line(feed.title, 40) or '-'}  {health}"


@app.command("remove", help="Unfollow a feed. It is deleted with its last follower.")
def remove(
    feed: Annotated[int, typer.Argument(metavar="ID", help="Id of the feed.", show_default=False)],
    owner: OwnerFilterOption = None,
    state: StateOption = DEFAULT_STATE,
    work_dir: WorkDirOption = None,
) -> None:
    with locate_written_state(state, work_dir).open_existing() as store:
        store.feeds.remove(feed, owner)
    print(f"Feed {feed} removed.")


@app.command("import", help=IMPORT_HELP)
def import_feeds(
    file: Annotated[str, typer.Argument(metavar="FILE", help="OPML file, or - for standard input.")],
    owner: FollowerOption = "",
    as_json: JsonOption = False,
    state: StateOption = DEFAULT_STATE,
    work_dir: WorkDirOption = None,
) -> None:
    from tidings.crawl.opml import read_opml
    from tidings.net.urls import mask_rejected

    listed = read_opml(_read_bytes(file))
    if not listed:
        raise InputError(f"{file}: no feeds found. Export the feeds of a reader as OPML.")
    added, rejected = 0, []
    location = locate_written_state(state, work_dir)
    check_owner(location, owner)
    with location.open_or_create() as store:
        for feed in listed:
            try:
                store.feeds.add(feed.url, owner, feed.title)
                added += 1
            except InputError as error:
                rejected.append({"url": mask_rejected(feed.url), "reason": str(error)})
    if as_json:
        print(safe_json({"added": added, "rejected": rejected}))
        return
    for line in rejected[:_MAX_REJECTED_LINES]:
        print_note(line["reason"])
    print(f"{added:,} feeds added" + (f"; {len(rejected):,} rejected" if rejected else ""))


def _read_bytes(file: str) -> bytes:
    if file == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror}).") from None


@app.command("export", help=EXPORT_HELP)
def export(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="OPML file.", show_default="standard output")
    ] = None,
    owner: OwnerFilterOption = None,
    state: StateOption = DEFAULT_STATE,
    work_dir: WorkDirOption = None,
) -> None:
    from tidings.crawl.opml import OpmlFeed, write_opml

    with locate_state(state, work_dir).open_existing() as store:
        document = write_opml(OpmlFeed(feed.url, feed.title, feed.site) for feed in store.feeds.all(owner))
    if file is None:
        with ignore_closed_pipe():
            sys.stdout.write(document.decode())
        return
    try:
        file.write_bytes(document)
    except OSError as error:
        raise OutputError(f"{file}: cannot be written ({error.strerror}).") from None


@app.command("measure", help=MEASURE_HELP, epilog=MEASURE_EXAMPLES)
def measure(
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="CSV file.", show_default="standard output")
    ] = None,
    site: Annotated[
        str, typer.Option("--site", metavar="NAME", envvar="TIDINGS_SITE", help="Name of this site.")
    ] = "here",
    allow: AllowOption = None,
    as_json: JsonOption = False,
    state: StateOption = DEFAULT_STATE,
    work_dir: WorkDirOption = None,
) -> None:
    import asyncio

    from tidings.crawl.latency import Latencies, measure_feeds, read_latencies, write_csv, write_latencies
    from tidings.net.allowlist import AllowedNetworks

    allowed = AllowedNetworks.parse(allow or ())
    before = read_latencies(out).ms if out is not None and out.exists() else {}
    with locate_state(state, work_dir).open_existing() as store:
        urls = [feed.url for feed in store.feeds.all()]
    measured, hosts = asyncio.run(measure_feeds(site, urls, allowed))
    others = {key: ms for key, ms in before.items() if key[0] != site}
    if out is None and not as_json:
        write_csv(measured, sys.stdout)
    elif out is not None:
        try:
            write_latencies(Latencies({**others, **measured.ms}), out)
        except OSError as error:
            raise OutputError(f"{out}: cannot be written ({error.strerror}).") from None
    summary = {"site": site, "hosts": hosts, "measured": len(measured.ms)}
    if as_json:
        print(safe_json({**summary, "ms": {host: round(ms, 3) for (_, host), ms in sorted(measured.ms.items())}}))
    else:
        print_note(
            f"{len(measured.ms):,} of {hosts:,} hosts answered from {site}; use with: tidings crawl --latencies FILE"
        )
