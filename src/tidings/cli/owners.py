"""`tidings owner`: who may use the API, with which tokens, and how much each may have."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from tidings.cli.console import screen
from tidings.cli.options.state import DEFAULT_STATE, StateOption, WorkOption, state_at
from tidings.cli.output import closable, emit, safe_json, say

if TYPE_CHECKING:
    from tidings.store.accounts import Account, Quotas

app = typer.Typer(
    help="""Owners of subscriptions and feeds. Each has tokens for the API of `tidings serve`, sees nothing of the
others, and may have only so much. Of a token only a hash is stored: it is printed once.""",
    rich_markup_mode="rich",
    no_args_is_help=True,
)

_NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The owner.", show_default=False)]
_JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def _quota(option: str, what: str) -> object:
    return typer.Option(option, metavar="N", min=0, help=f"The most {what}.", show_default=False)


_Subscriptions = Annotated[int | None, _quota("--subscriptions", "subscriptions it may have")]
_Feeds = Annotated[int | None, _quota("--feeds", "feeds it may have")]
_Posts = Annotated[int | None, _quota("--posts-a-day", "posts it may publish a day")]


@app.command(epilog="[bold]Example[/]\n\ntidings owner add ann --subscriptions 50")
def add(
    name: _NameArgument,
    subscriptions: _Subscriptions = None,
    feeds: _Feeds = None,
    posts_a_day: _Posts = None,
    as_json: _JsonOption = False,
    state: StateOption = DEFAULT_STATE,
    work: WorkOption = None,
) -> None:
    """Make an owner and print its token, which is shown only now."""
    from tidings.store.accounts import Quotas  # here, so that other commands need not load it

    quotas = _changed(Quotas(), subscriptions, feeds, posts_a_day)
    with state_at(state, work).make() as store:
        _show_token(name, store.accounts.add(name, quotas), as_json)


@app.command()
def token(
    name: _NameArgument, as_json: _JsonOption = False, state: StateOption = DEFAULT_STATE, work: WorkOption = None
) -> None:
    """Give an owner one more token; those it has stay good."""
    with state_at(state, work).open() as store:
        _show_token(name, store.accounts.new_token(name), as_json)


def _show_token(name: str, made: str, as_json: bool) -> None:
    print(safe_json({"owner": name, "token": made}) if as_json else made)
    if not as_json:
        say(f"this is the token of {name}; it is not shown again")


@app.command()
def quotas(
    name: _NameArgument,
    subscriptions: _Subscriptions = None,
    feeds: _Feeds = None,
    posts_a_day: _Posts = None,
    as_json: _JsonOption = False,
    state: StateOption = DEFAULT_STATE,
    work: WorkOption = None,
) -> None:
    """Show what an owner may have, or change it."""
    with state_at(state, work).open() as store:
        store.accounts.set_quotas(
            name, _changed(store.accounts.account(name).quotas, subscriptions, feeds, posts_a_day)
        )
        _show([store.accounts.account(name)], as_json)


def _changed(before: Quotas, subscriptions: int | None, feeds: int | None, posts_a_day: int | None) -> Quotas:
    told = {"subscriptions": subscriptions, "feeds": feeds, "posts_a_day": posts_a_day}
    return replace(before, **{name: number for name, number in told.items() if number is not None})


@app.command(name="list")
def list_(as_json: _JsonOption = False, state: StateOption = DEFAULT_STATE, work: WorkOption = None) -> None:
    """List the owners, what they have and what they may have."""
    with state_at(state, work).open() as store, closable():
        _show(store.accounts.all(), as_json)


def _show(accounts: list[Account], as_json: bool) -> None:
    if as_json:
        for account in accounts:
            print(safe_json(_told(account)))
        return
    table = Table(box=None, pad_edge=False)
    for name in ("owner", "tokens", "subscriptions", "posts today", "feeds at most"):
        table.add_column(name, justify="left" if name == "owner" else "right")
    for one in accounts:
        used = ((one.subscriptions, one.quotas.subscriptions), (one.posts_today, one.quotas.posts_a_day))
        table.add_row(
            one.name, f"{one.tokens}", *(f"{count:,} of {most:,}" for count, most in used), f"{one.quotas.feeds:,}"
        )
    emit(screen(), table)


def _told(account: Account) -> dict[str, object]:
    quotas = account.quotas
    return {
        "owner": account.name,
        "created_at": account.created_at,
        "tokens": account.tokens,
        "subscriptions": account.subscriptions,
        "posts_today": account.posts_today,
        "quotas": {
            "subscriptions": quotas.subscriptions,
            "feeds": quotas.feeds,
            "posts_a_day": quotas.posts_a_day,
        },
    }


@app.command()
def revoke(name: _NameArgument, state: StateOption = DEFAULT_STATE, work: WorkOption = None) -> None:
    """End all tokens of an owner at once. What it has stays; `tidings owner token NAME` lets it in again."""
    with state_at(state, work).open() as store:
        count = store.accounts.revoke(name)
    print(f"{count} token{'' if count == 1 else 's'} of {name} revoked")


@app.command()
def remove(name: _NameArgument, state: StateOption = DEFAULT_STATE, work: WorkOption = None) -> None:
    """Remove an owner with its tokens, subscriptions, webhooks and feeds."""
    with state_at(state, work).open() as store:
        store.accounts.revoke(name)  # it adds nothing any more
        for feed in list(store.feeds(name)):
            store.remove_feed(feed.id, name)
        store.accounts.remove(name)  # last: who is interrupted before can do it again
    print(f"{name} removed")
