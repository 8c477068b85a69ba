"""`tidings subscribe`: standing queries, one or a file of them, checked and stored; a running stream takes notice."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidings.cli.console import show_error
from tidings.cli.options.region import numbers_of, told_region, typed_region
from tidings.cli.options.state import DEFAULT_STATE, State, StateOption, WorkOption, state_at
from tidings.cli.output import check_utf8, safe_json, say
from tidings.cli.progress import Progress
from tidings.errors import InputError, QueryError

if TYPE_CHECKING:
    from tidings.query.dnf import Polygons, Region
    from tidings.schemas import RejectedSubscription, SubscriptionFile
    from tidings.store import NewSubscription

_FILE = (
    "With --file many at once: a text file with one query a line, or JSON Lines, CSV or Parquet with [bold]id[/] and "
    "[bold]query[/], and optionally owner and region. They get ids of their own, in the order of the file; a row that "
    "cannot be used is reported and left out."
)
HELP = f"Store a standing query and print its id. A stream that runs finds its posts from the next batch on.\n\n{_FILE}"
EXAMPLES = """[bold]Examples[/]

tidings subscribe 'storm OR "heavy rain" -umbrella'

tidings subscribe 'police' --region -0.6,51.2,0.4,51.8 --owner ann

tidings subscribe 'police' --region downtown.geojson

tidings subscribe --file subscriptions.txt --owner ann

tidings explain 'storm OR rain' [dim]# how a query is understood[/]"""
_OPTION = re.compile(r"--[a-z][a-z-]*(=.*)?")
_SHOWN_REJECTED = 20
_SPEAK_SECONDS = 5.0


def subscribe(
    query: Annotated[
        str | None, typer.Argument(help="The standing query, in quotes.", metavar="QUERY", show_default=False)
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", metavar="FILE", help="Many at once.", show_default=False)
    ] = None,
    owner: Annotated[
        str, typer.Option("--owner", metavar="NAME", help="Whose it is; with --file where the file does not say.")
    ] = "",
    region: Annotated[
        str | None,
        typer.Option(
            "--region",
            metavar="W,S,E,N|FILE",
            help="Only posts from there: west, south, east, north; or the polygons of a GeoJSON file (.geojson).",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    state: StateOption = DEFAULT_STATE,
    work: WorkOption = None,
) -> None:
    """Check, then store, then print the id."""
    _check_arguments(query, file, region, owner)
    place = state_at(state, work)
    if file is not None:
        _subscribe_file(file, owner, place, as_json)
    else:
        _subscribe_one(query or "", owner, typed_region(region), place, as_json)


def _check_arguments(query: str | None, file: Path | None, region: str | None, owner: str) -> None:
    if query is not None and _OPTION.fullmatch(query):
        raise InputError(f"There is no option {query}. Try: tidings subscribe --help")
    if file is not None and (query is not None or region is not None):
        raise InputError("Give either a QUERY (and --region) or --file; a file has its own queries and regions.")
    if file is None and query is None and region is None:
        raise InputError("Give the QUERY in quotes, or many with --file FILE. Try: tidings subscribe --help")
    for name, text in (("QUERY", query), ("--owner", owner)):
        check_utf8(name, text)


def _subscribe_one(query: str, owner: str, region: Region | Polygons | None, place: State, as_json: bool) -> None:
    from tidings.query.parse import parse

    try:
        parse(query, region)
    except QueryError as error:
        show_error(error, query)
        raise typer.Exit(error.exit_code) from error
    numbers = numbers_of(region)
    with place.make() as store:
        number = store.subscribe(query, owner, numbers)
    told = {"id": number, "owner": owner, "query": query, "region": told_region(numbers)}
    print(safe_json(told) if as_json else number)
    if not as_json and sys.stdout.isatty():
        say(f"see what it finds with: tidings matches {number} --follow{place.option}")


def _subscribe_file(file: Path, owner: str, place: State, as_json: bool) -> None:
    """All good rows in one transaction; the others are told with line and reason."""
    from tidings.ingest.subscription_files import read_subscriptions

    if not file.exists():
        raise InputError(f"{file}: there is no such file.")
    with Progress(quiet=as_json) as progress:
        progress.note(f"reading {file}", None)
        read = read_subscriptions(file)
        good, rejected = _checked(read, owner, progress)
        if rejected and not good:
            first = f"line {rejected[0].line}: {rejected[0].reason}"
            raise InputError(f"{file}: none of its {len(rejected):,} subscriptions can be used; the first is {first}")
        progress.note(f"storing {len(good):,} subscriptions", None)
        with place.make() as store:
            ids = store.subscribe_many(good)
    _report(file, ids, rejected, as_json)


def _checked(
    read: SubscriptionFile, owner: str, progress: Progress
) -> tuple[list[NewSubscription], list[RejectedSubscription]]:
    """The rows whose query and region are accepted, and the others; how far it is is told now and then."""
    from tidings.index.validate import refused
    from tidings.schemas import RejectedSubscription

    reasons = {one.row: one.reason for one in refused(read.table, _told(len(read.table), progress))}
    good, rejected = [], list(read.rejected)
    for place, (line, row) in enumerate(zip(read.lines.tolist(), _rows(read), strict=True)):
        if place in reasons:
            rejected.append(RejectedSubscription(line, row["id"], reasons[place]))
        else:
            good.append(_accepted(row["query"] or "", row["owner"] or owner, row["region"]))
    return good, sorted(rejected, key=lambda one: one.line)


def _told(total: int, progress: Progress) -> Callable[[int], None]:
    """Speaks of how far it is every few seconds."""
    spoken = time.monotonic()

    def done(rows: int) -> None:
        nonlocal spoken
        if time.monotonic() - spoken > _SPEAK_SECONDS:
            progress.note(f"checking: {rows:,} of {total:,} subscriptions", None)
            spoken = time.monotonic()

    return done


def _rows(read: SubscriptionFile) -> Iterator[dict[str, Any]]:
    for batch in read.table.to_batches(max_chunksize=10_000):
        yield from batch.to_pylist()


def _accepted(query: str, owner: str, sides: list[float] | None) -> NewSubscription:
    from tidings.query.geo.region import region
    from tidings.store import NewSubscription

    if sides is None or len(sides) != 4:
        return NewSubscription(query, owner, None if sides is None else tuple(sides))
    west, south, east, north = sides
    return NewSubscription(query, owner, numbers_of(region(west, south, east, north)))


def _report(file: Path, ids: range, rejected: list[RejectedSubscription], as_json: bool) -> None:
    if as_json:
        reasons = [{"line": one.line, "id": one.id, "reason": one.reason} for one in rejected]
        ends = {"first_id": ids[0], "last_id": ids[-1]} if ids else {"first_id": None, "last_id": None}
        print(safe_json({"subscribed": len(ids), **ends, "rejected": reasons}))
        return
    for one in rejected[:_SHOWN_REJECTED]:
        say(f"{file}, line {one.line}: {one.reason}")
    if len(rejected) > _SHOWN_REJECTED:
        say(f"{len(rejected) - _SHOWN_REJECTED:,} more cannot be used; --json lists them all")
    numbers = f", ids {ids[0]} to {ids[-1]}" if ids else ""
    print(f"{len(ids):,} subscribed{numbers}" + (f"; {len(rejected):,} left out" if rejected else ""))
