"""`tidings subscriptions` lists who wants to hear about what; `tidings unsubscribe` ends it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer
from rich.cells import cell_len

from tidings.cli.options.region import shown_region, told_region
from tidings.cli.options.state import DEFAULT_STATE, StateOption, WorkOption, state_at
from tidings.cli.output import check_utf8, closable, one_line, safe_json, say

if TYPE_CHECKING:
    from tidings.store import Subscription

UNSUBSCRIBE_HELP = "Remove a subscription. A stream that runs finds nothing for it from the next batch on."
UNSUBSCRIBE_EXAMPLES = """[bold]Examples[/]

tidings unsubscribe 3

tidings unsubscribe 3 --owner ann [dim]# only if it is hers[/]"""
HELP = "List the subscriptions."
EXAMPLES = """[bold]Examples[/]

tidings subscriptions --owner ann

tidings subscriptions --json | jq .query"""
_PAGE = 500
_LEAST = (6, 8, 16)
_OWNER_CELLS, _QUERY_CELLS = 30, 200

OwnerOption = Annotated[
    str | None, typer.Option("--owner", metavar="NAME", help="Only this owner's.", show_default=False)
]


def unsubscribe(
    subscription: Annotated[int, typer.Argument(metavar="ID", help="The subscription.", show_default=False)],
    owner: OwnerOption = None,
    state: StateOption = DEFAULT_STATE,
    work: WorkOption = None,
) -> None:
    """Remove one."""
    with state_at(state, work).open() as store:
        store.unsubscribe(subscription, owner)
    print(f"Subscription {subscription} is removed.")


def subscriptions(
    owner: OwnerOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON Lines.")] = False,
    state: StateOption = DEFAULT_STATE,
    work: WorkOption = None,
) -> None:
    """List them, page by page, so that it begins at once whatever their number."""
    check_utf8("--owner", owner)
    place = state_at(state, work)
    with place.open() as store, closable():
        found = store.subscriptions(owner)
        shown = _list_json(found) if as_json else _list(found)
        if not shown and not as_json:
            whose = "" if owner is None else f" of {owner}"
            say(f"there are no subscriptions{whose}; add one with `tidings subscribe QUERY{place.option}`")


def _list_json(found: Iterable[Subscription]) -> int:
    shown = 0
    for one in found:
        told = {"id": one.id, "owner": one.owner, "query": one.query, "region": told_region(one.region)}
        print(safe_json({**told, "created_at": one.created_at}))
        shown += 1
    return shown


def _list(found: Iterator[Subscription]) -> int:
    """Lines made by hand: there may be a million, and rich would take minutes for them."""
    shown = 0
    while page := list(islice(found, _PAGE)):
        rows = [*([("id", "owner", "since", "query")] if not shown else []), *map(_cells, page)]
        widths = [
            max(least, *map(cell_len, column)) for least, column in zip(_LEAST, zip(*rows, strict=True), strict=False)
        ]
        for name, owner, since, query in rows:
            padding = " " * (widths[1] - cell_len(owner))
            print(f"{name:>{widths[0]}}  {owner}{padding}  {since:{widths[2]}}  {query}")
        shown += len(page)
    return shown


def _cells(one: Subscription) -> tuple[str, str, str, str]:
    since = datetime.fromtimestamp(one.created_at, UTC).astimezone().strftime("%Y-%m-%d %H:%M")
    query = one_line(one.query, _QUERY_CELLS) + shown_region(one.region)
    return str(one.id), one_line(one.owner, _OWNER_CELLS) or "-", since, query
