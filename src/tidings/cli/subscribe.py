"""`tidings subscribe`: check and store a query, or a file of them."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidings.cli.console import print_error
from tidings.cli.options.common import JsonOption
from tidings.cli.options.owner import check_owner, find_invalid_owners
from tidings.cli.options.region import parse_region, region_to_json, region_to_numbers
from tidings.cli.options.state import DEFAULT_STATE, StateLocation, StateOption, WorkDirOption, locate_written_state
from tidings.cli.output import check_utf8, print_note, safe_json
from tidings.cli.progress import Progress
from tidings.cli.values import require_file
from tidings.errors import InputError, QueryError

if TYPE_CHECKING:
    from tidings.query.dnf import Polygons, Rectangle
    from tidings.schemas import RejectedSubscription, SubscriptionFile
    from tidings.store import NewSubscription

_FILE = (
    "--file reads a text file with one query per line, or JSON Lines, CSV or Parquet with [bold]id[/] and "
    "[bold]query[/], and optionally owner and region. The subscriptions get new ids, in the order of the file. "
    "Rejected rows are reported and left out."
)
HELP = f"Store a query and print its id. A running stream matches it from the next batch on.\n\n{_FILE}"
EXAMPLES = """[bold]Examples[/]

tidings subscribe 'storm OR "heavy rain" -umbrella'

tidings subscribe 'police' --region -0.6,51.2,0.4,51.8 --owner ann

tidings subscribe 'police' --region downtown.geojson

tidings subscribe --file subscriptions.txt --owner ann

tidings explain 'storm OR rain' [dim]# how a query is parsed[/]"""
_OPTION = re.compile(r"--[a-z][a-z-]*(=.*)?")
_MAX_REJECTED_LINES = 20
_PRINT_INTERVAL_S = 5.0


def subscribe(
    query: Annotated[str | None, typer.Argument(help="Query, in quotes.", metavar="QUERY", show_default=False)] = None,
    file: Annotated[
        Path | None, typer.Option("--file", metavar="FILE", help="File of subscriptions.", show_default=False)
    ] = None,
    owner: Annotated[
        str,
        typer.Option("--owner", metavar="NAME", help="Owner; with --file, of rows without owner.", show_default=False),
    ] = "",
    region: Annotated[
        str | None,
        typer.Option(
            "--region",
            metavar="W,S,E,N|FILE",
            help="Only posts from west,south,east,north or GeoJSON polygons.",
            show_default=False,
        ),
    ] = None,
    as_json: JsonOption = False,
    state: StateOption = DEFAULT_STATE,
    work_dir: WorkDirOption = None,
) -> None:
    _check_arguments(query, file, region, owner)
    location = locate_written_state(state, work_dir)
    if file is not None:
        _subscribe_file(file, owner, location, as_json)
    else:
        _subscribe_one(query or "", owner, parse_region(region), location, as_json)


def _check_arguments(query: str | None, file: Path | None, region: str | None, owner: str) -> None:
    if query is not None and _OPTION.fullmatch(query):
        raise InputError(f"{query}: no such option. Try: tidings subscribe --help")
    if file is not None and (query is not None or region is not None):
        raise InputError("--file: cannot be combined with QUERY or --region. The file has its own queries and regions.")
    if file is None and query is None and region is None:
        raise InputError("QUERY or --file FILE is required. Try: tidings subscribe --help")
    for name, text in (("QUERY", query), ("--owner", owner)):
        check_utf8(name, text)


def _subscribe_one(
    query: str, owner: str, region: Rectangle | Polygons | None, location: StateLocation, as_json: bool
) -> None:
    from tidings.query.cost import query_cost
    from tidings.text.sanitize import clean_text

    query = clean_text(query)
    try:
        cost = query_cost(query, region)
    except QueryError as error:
        print_error(error, query)
        raise typer.Exit(error.exit_code) from error
    check_owner(location, owner)
    numbers = region_to_numbers(region)
    with location.open_or_create() as store:
        number = store.subscriptions.add(query, owner, numbers, cost)
    subscription = {"id": number, "owner": owner, "query": query, "region": region_to_json(numbers)}
    print(safe_json(subscription) if as_json else number)
    if not as_json and sys.stdout.isatty():
        print_note(f"print its matches with: tidings matches {number} --follow{location.option}")


def _subscribe_file(file: Path, owner: str, location: StateLocation, as_json: bool) -> None:
    """Store all valid rows in one transaction; report the others with line and reason."""
    from tidings.ingest.subscription_files import read_subscriptions

    require_file(file, "--file")
    with Progress(quiet=as_json) as progress:
        progress.note(f"reading {file}", None)
        read = read_subscriptions(file)
        check_owner(location, owner)
        accepted, rejected = _check_rows(read, owner, location, progress)
        if rejected and not accepted:
            first = f"line {rejected[0].line}: {rejected[0].reason}"
            raise InputError(f"{file}: all {len(rejected):,} subscriptions are rejected. The first is {first}")
        progress.note(f"storing {len(accepted):,} subscriptions", None)
        with location.open_or_create() as store:
            ids = store.subscriptions.add_many(accepted)
    _report(file, ids, rejected, as_json)


def _check_rows(
    read: SubscriptionFile, owner: str, location: StateLocation, progress: Progress
) -> tuple[list[NewSubscription], list[RejectedSubscription]]:
    """Return the valid rows and the rejected ones; report progress."""
    from tidings.index.validate import find_invalid
    from tidings.schemas import RejectedSubscription
    from tidings.text.sanitize import clean_text

    invalid, costs = find_invalid(read.table, _progress_callback(len(read.table), progress))
    reasons = {row.row: row.reason for row in invalid}
    invalid_owners = find_invalid_owners(location, filter(None, read.table["owner"].unique().to_pylist()))
    accepted, rejected = [], list(read.rejected)
    for position, (line, row) in enumerate(zip(read.lines.tolist(), _rows(read), strict=True)):
        if position in reasons:
            rejected.append(RejectedSubscription(line, row["id"], reasons[position]))
        elif row["owner"] in invalid_owners:
            rejected.append(RejectedSubscription(line, row["id"], invalid_owners[row["owner"]]))
        else:
            new = _new_subscription(clean_text(row["query"] or ""), row["owner"] or owner, row["region"])
            accepted.append(new._replace(cost=int(costs[position])))
    return accepted, sorted(rejected, key=lambda row: row.line)


def _progress_callback(total: int, progress: Progress) -> Callable[[int], None]:
    """Return a function that reports the rows done every few seconds."""
    printed_at = time.monotonic()

    def report(rows: int) -> None:
        nonlocal printed_at
        if time.monotonic() - printed_at > _PRINT_INTERVAL_S:
            progress.note(f"checking: {rows:,} of {total:,} subscriptions", None)
            printed_at = time.monotonic()

    return report


def _rows(read: SubscriptionFile) -> Iterator[dict[str, Any]]:
    for batch in read.table.to_batches(max_chunksize=10_000):
        yield from batch.to_pylist()


def _new_subscription(query: str, owner: str, sides: list[float] | None) -> NewSubscription:
    from tidings.query.geo.region import make_rectangle
    from tidings.store import NewSubscription

    if sides is None or len(sides) != 4:
        return NewSubscription(query, owner, None if sides is None else tuple(sides))
    west, south, east, north = sides
    return NewSubscription(query, owner, region_to_numbers(make_rectangle(west, south, east, north)))


def _report(file: Path, ids: range, rejected: list[RejectedSubscription], as_json: bool) -> None:
    if as_json:
        reasons = [{"line": row.line, "id": row.id, "reason": row.reason} for row in rejected]
        ends = {"first_id": ids[0], "last_id": ids[-1]} if ids else {"first_id": None, "last_id": None}
        print(safe_json({"subscribed": len(ids), **ends, "rejected": reasons}))
        return
    for row in rejected[:_MAX_REJECTED_LINES]:
        print_note(f"{file}, line {row.line}: {row.reason}")
    if len(rejected) > _MAX_REJECTED_LINES:
        print_note(f"{len(rejected) - _MAX_REJECTED_LINES:,} more are rejected; --json lists all")
    numbers = f", ids {ids[0]} to {ids[-1]}" if ids else ""
    print(f"{len(ids):,} subscribed{numbers}" + (f"; {len(rejected):,} rejected" if rejected else ""))
