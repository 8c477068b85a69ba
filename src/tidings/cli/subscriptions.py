"""`tidings subscriptions` lists subscriptions; `tidings unsubscribe` removes one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer
from rich.cells import cell_len

from tidings.cli.options.common import JsonOption, OwnerFilterOption
from tidings.cli.options.region import format_region, region_to_json
from tidings.cli.options.state import DEFAULT_STATE, StateOption, WorkDirOption, locate_state, locate_written_state
from tidings.cli.output import check_utf8, ignore_closed_pipe, print_note, safe_json, to_line

if TYPE_CHECKING:
    from tidings.store import Subscription

UNSUBSCRIBE_HELP = "Remove a subscription. A running stream stops matching it from the next batch on."
UNSUBSCRIBE_EXAMPLES = """[bold]Examples[/]

tidings unsubscribe 3

tidings unsubscribe 3 --owner ann [dim]# only if it belongs to ann[/]"""
HELP = "List the subscriptions."
EXAMPLES = """[bold]Examples[/]

tidings subscriptions --owner ann

tidings subscriptions --json | jq .query"""
_PAGE_ROWS = 500
_MIN_WIDTHS = (6, 8, 16)
_OWNER_CELLS, _QUERY_CELLS = 30, 200


def unsubscribe(
    subscription: Annotated[int, typer.Argument(metavar="ID", help="Id of the subscription.", show_default=False)],
    owner: OwnerFilterOption = None,
    state: StateOption = DEFAULT_STATE,
    work_dir: WorkDirOption = None,
) -> None:
    with locate_written_state(state, work_dir).open_existing() as store:
        store.subscriptions.remove(subscription, owner)
    print(f"Subscription {subscription} removed.")


def subscriptions(
    owner: OwnerFilterOption = None,
    as_json: JsonOption = False,
    state: StateOption = DEFAULT_STATE,
    work_dir: WorkDirOption = None,
) -> None:
    """Print page by page, so that output starts immediately for any number of subscriptions."""
    check_utf8("--owner", owner)
    location = locate_state(state, work_dir)
    with location.open_existing() as store, ignore_closed_pipe():
        rows = store.subscriptions.all(owner)
        shown = _print_json(rows) if as_json else _print_lines(rows)
        if not shown and not as_json:
            whose = "" if owner is None else f" of {owner}"
            print_note(f"no subscriptions{whose}; add one with `tidings subscribe QUERY{location.option}`")


def _print_json(subscriptions: Iterable[Subscription]) -> int:
    shown = 0
    for subscription in subscriptions:
        row = {
            "id": subscription.id,
            "owner": subscription.owner,
            "query": subscription.query,
            "region": region_to_json(subscription.region),
        }
        print(safe_json({**row, "created_at": subscription.created_at}))
        shown += 1
    return shown


def _print_lines(subscriptions: Iterator[Subscription]) -> int:
    """Print aligned lines and return their number. rich would take minutes for a million rows."""
    shown = 0
    while page := list(islice(subscriptions, _PAGE_ROWS)):
        rows = [*([("id", "owner", "since", "query")] if not shown else []), *map(_cells, page)]
        widths = [
            max(min_width, *map(cell_len, column))
            for min_width, column in zip(_MIN_WIDTHS, zip(*rows, strict=True), strict=False)
        ]
        for name, owner, since, query in rows:
            padding = " " * (widths[1] - cell_len(owner))
            print(f"{name:>{widths[0]}}  {owner}{padding}  {since:{widths[2]}}  {query}")
        shown += len(page)
    return shown


def _cells(subscription: Subscription) -> tuple[str, str, str, str]:
    since = datetime.fromtimestamp(subscription.created_at, UTC).astimezone().strftime("%Y-%m-%d %H:%M")
    query = to_line(subscription.query, _QUERY_CELLS) + format_region(subscription.region)
    return str(subscription.id), to_line(subscription.owner, _OWNER_CELLS) or "-", since, query
