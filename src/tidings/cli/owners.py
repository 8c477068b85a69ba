"""`tidings owners`: manage the owners of subscriptions, their API tokens and quotas."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from tidings.cli.console import screen
from tidings.cli.options.common import JsonOption
from tidings.cli.options.state import DEFAULT_STATE, StateOption, WorkDirOption, locate_state, locate_written_state
from tidings.cli.output import ignore_closed_pipe, print_note, print_rich, safe_json

if TYPE_CHECKING:
    from tidings.store.accounts import Account, Quotas

app = typer.Typer(
    help="""Manage owners of subscriptions and feeds. Each owner has quotas and tokens for the API of `tidings serve`,
and does not see what belongs to others. A token is printed once: only its hash is stored.""",
    rich_markup_mode="rich",
    no_args_is_help=True,
)

_NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the owner.", show_default=False)]


def _quota_option(option: str, what: str) -> object:
    return typer.Option(option, metavar="N", min=0, help=f"Maximum {what}.", show_default=False)


_Subscriptions = Annotated[int | None, _quota_option("--subscriptions", "number of subscriptions")]
_Feeds = Annotated[int | None, _quota_option("--feeds", "number of feeds")]
_Cost = Annotated[int | None, _quota_option("--query-cost", "cost of all queries together; a plain word costs 1")]
_Posts = Annotated[int | None, _quota_option("--posts-per-day", "number of posts published per day")]


@app.command(epilog="[bold]Example[/]\n\ntidings owners add ann --subscriptions 50")
def add(
    name: _NameArgument,
    subscriptions: _Subscriptions = None,
    feeds: _Feeds = None,
    posts_per_day: _Posts = None,
    query_cost: _Cost = None,
    as_json: JsonOption = False,
    state: StateOption = DEFAULT_STATE,
    work_dir: WorkDirOption = None,
) -> None:
    """Create an owner and print its token, once."""
    from tidings.store.accounts import Quotas

    quotas = _change_quotas(Quotas(), subscriptions, feeds, posts_per_day, query_cost)
    with locate_written_state(state, work_dir).open_or_create() as store:
        _print_token(name, store.accounts.add(name, quotas), as_json)


@app.command()
def token(
    name: _NameArgument,
    as_json: JsonOption = False,
    state: StateOption = DEFAULT_STATE,
    work_dir: WorkDirOption = None,
) -> None:
    """Create another token for an owner; existing tokens stay valid."""
    with locate_written_state(state, work_dir).open_existing() as store:
        _print_token(name, store.accounts.add_token(name), as_json)


def _print_token(name: str, token: str, as_json: bool) -> None:
    print(safe_json({"owner": name, "token": token}) if as_json else token)
    if not as_json:
        print_note(f"token of {name}; it is not shown again")


@app.command()
def quotas(
    name: _NameArgument,
    subscriptions: _Subscriptions = None,
    feeds: _Feeds = None,
    posts_per_day: _Posts = None,
    query_cost: _Cost = None,
    as_json: JsonOption = False,
    state: StateOption = DEFAULT_STATE,
    work_dir: WorkDirOption = None,
) -> None:
    """Show or change the quotas of an owner."""
    with locate_written_state(state, work_dir).open_existing() as store:
        before = store.accounts.get(name).quotas
        changed = _change_quotas(before, subscriptions, feeds, posts_per_day, query_cost)
        store.accounts.set_quotas(name, changed)
        _print_accounts([store.accounts.get(name)], as_json)


def _change_quotas(
    before: Quotas, subscriptions: int | None, feeds: int | None, posts_per_day: int | None, query_cost: int | None
) -> Quotas:
    given = {"subscriptions": subscriptions, "feeds": feeds, "posts_per_day": posts_per_day, "query_cost": query_cost}
    return replace(before, **{name: number for name, number in given.items() if number is not None})


@app.command(name="list")
def list_(as_json: JsonOption = False, state: StateOption = DEFAULT_STATE, work_dir: WorkDirOption = None) -> None:
    """List the owners with their usage and quotas."""
    with locate_state(state, work_dir).open_existing() as store, ignore_closed_pipe():
        _print_accounts(store.accounts.all(), as_json)


def _print_accounts(accounts: list[Account], as_json: bool) -> None:
    if as_json:
        for account in accounts:
            print(safe_json(_to_dict(account)))
        return
    table = Table(box=None, pad_edge=False)
    for name in ("owner", "tokens", "subscriptions", "query cost", "posts today", "max feeds"):
        table.add_column(name, justify="left" if name == "owner" else "right")
    for account in accounts:
        used = (
            (account.subscriptions, account.quotas.subscriptions),
            (account.query_cost, account.quotas.query_cost),
            (account.posts_today, account.quotas.posts_per_day),
        )
        table.add_row(
            account.name,
            f"{account.tokens}",
            *(f"{count:,} of {most:,}" for count, most in used),
            f"{account.quotas.feeds:,}",
        )
    print_rich(screen(), table)


def _to_dict(account: Account) -> dict[str, object]:
    quotas = account.quotas
    return {
        "owner": account.name,
        "created_at": account.created_at,
        "tokens": account.tokens,
        "subscriptions": account.subscriptions,
        "query_cost": account.query_cost,
        "posts_today": account.posts_today,
        "quotas": {
            "subscriptions": quotas.subscriptions,
            "feeds": quotas.feeds,
            "posts_per_day": quotas.posts_per_day,
            "query_cost": quotas.query_cost,
        },
    }


@app.command()
def revoke(name: _NameArgument, state: StateOption = DEFAULT_STATE, work_dir: WorkDirOption = None) -> None:
    """Revoke all tokens of an owner. Its subscriptions stay; `tidings owners token NAME` creates a new token."""
    with locate_written_state(state, work_dir).open_existing() as store:
        count = store.accounts.revoke_tokens(name)
    print(f"{count} token{'' if count == 1 else 's'} of {name} revoked")


@app.command()
def remove(name: _NameArgument, state: StateOption = DEFAULT_STATE, work_dir: WorkDirOption = None) -> None:
    """Remove an owner with its tokens, subscriptions, webhooks and feeds."""
    with locate_written_state(state, work_dir).open_existing() as store:
        store.accounts.revoke_tokens(name)  # it can add nothing from here on
        for feed in list(store.feeds.all(name)):
            store.feeds.remove(feed.id, name)
        store.accounts.remove(name)  # last, so that an interrupted command can be repeated
    print(f"{name} removed")
