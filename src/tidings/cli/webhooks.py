"""`tidings hooks`: the sender of webhooks; `add`, `list`, `remove`, `test`: which there are, and how they are."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidings.cli.options.allow import AllowOption
from tidings.cli.options.state import DEFAULT_STATE, StateOption, WorkOption, state_at
from tidings.cli.output import closable, one_line, safe_json, say
from tidings.cli.subscriptions import OwnerOption
from tidings.cli.times import moment
from tidings.errors import InputError, OutputError

if TYPE_CHECKING:
    from tidings.delivery.webhooks.sender import Sender
    from tidings.store.webhooks import Webhook

HELP = """Webhooks: have the matches of subscriptions sent to addresses.

Without a command it sends them, as they come, until Ctrl-C; `tidings serve` does it too. Every message is signed as the
Standard Webhooks specification has it, is sent again for three days when it is not taken, and has the same `webhook-id`
each time. Only public addresses are sent to."""
EXAMPLES = """[bold]Examples[/]

tidings hooks add 3 https://example.org/tidings --state news

tidings hooks --state news [dim]# send[/]

tidings hooks --state news --allow 10.1.0.0/16 [dim]# receivers inside[/]"""
ADD_HELP = """Send the matches of a subscription to an address. The secret to verify messages with is printed once."""
TEST_HELP = """Send a message of the type `webhook.test` now, once, and tell how that went; exit code 1 if badly."""

app = typer.Typer(help=HELP, epilog=EXAMPLES, rich_markup_mode="rich", invoke_without_command=True)
_Hook = Annotated[str, typer.Argument(metavar="ID", help="The webhook, as `tidings hooks list` names it.")]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_TOLD = ("subscription", "owner", "url", "state", "error", "failures", "created_at", "delivered_at", "cursor")
_COUNTED = ("messages", "matches")


@app.callback()
def hooks(
    context: typer.Context,
    state: StateOption = DEFAULT_STATE,
    work: WorkOption = None,
    allow: AllowOption = None,
) -> None:
    """Open, send, end; unless a command follows."""
    if context.invoked_subcommand is not None:
        _check_placed(context)
        return
    from tidings.net.allowlist import Allowed

    reached = Allowed.parse(allow or [])
    with state_at(state, work).open() as store, store.hold_sender():
        from tidings.delivery.webhooks.sender import Sender  # here: aiohttp takes its time

        asyncio.run(_until_told(Sender(store, reached, tell=say)))


def _check_placed(context: typer.Context) -> None:
    """Options before a command would be heard by nobody."""
    for name in ("state", "work", "allow"):
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            after = f"tidings hooks {context.invoked_subcommand} … --{name} …"
            raise InputError(f"--{name} stands before the command, where it is for sending; write: {after}")


async def _until_told(sender: Sender) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await sender.run(stop)


@app.command("add", help=ADD_HELP)
def add(
    subscription: Annotated[int, typer.Argument(metavar="SUBSCRIPTION", min=1, help="Its id.")],
    url: Annotated[str, typer.Argument(metavar="URL", help="The receiver.")],
    after: Annotated[
        int | None, typer.Option(metavar="CURSOR", min=0, help="Send what was found after it, too.", show_default=False)
    ] = None,
    as_json: _Json = False,
    state: StateOption = DEFAULT_STATE,
    work: WorkOption = None,
) -> None:
    """One webhook more."""
    with state_at(state, work).open() as store:
        made = store.webhooks.add(subscription, url, after=after)
    if as_json:
        print(safe_json({**_told(made), "secret": made.secret}))
    else:
        print(f"{made.name}\n{made.secret}")
        say("the second line is its secret: keep it, it is not shown again")


@app.command("list", help="List the webhooks, and how they are.")
def list_hooks(
    owner: OwnerOption = None, as_json: _Json = False, state: StateOption = DEFAULT_STATE, work: WorkOption = None
) -> None:
    """One a line."""
    place, last = state_at(state, work), ""
    with place.open() as store, closable():
        while page := store.webhooks.page(owner, last):
            for one in page:
                print(safe_json(_told(one)) if as_json else _line(one))
            last = page[-1].name
    if not last and not as_json:
        say(f"there are no webhooks; make one with `tidings hooks add SUBSCRIPTION URL{place.option}`")


@app.command("remove", help="Send nothing there from now on.")
def remove(hook: _Hook, state: StateOption = DEFAULT_STATE, work: WorkOption = None) -> None:
    """One webhook less."""
    with state_at(state, work).open() as store:
        store.webhooks.remove(hook)
    say(f"removed webhook {hook}")


@app.command("test", help=TEST_HELP)
def try_out_hook(
    hook: _Hook,
    allow: AllowOption = None,
    as_json: _Json = False,
    state: StateOption = DEFAULT_STATE,
    work: WorkOption = None,
) -> None:
    """Try one out."""
    from tidings.delivery.webhooks.attempt import try_out
    from tidings.net.allowlist import Allowed

    reached = Allowed.parse(allow or [])
    with state_at(state, work).open() as store:
        tried = store.webhooks.get(hook)
        attempt = asyncio.run(try_out(tried, reached))
        store.webhooks.note(tried, attempt)
    is_taken = attempt.status is not None and 200 <= attempt.status < 300
    if as_json:
        print(safe_json(attempt._asdict()))
        raise typer.Exit(0 if is_taken else 1)
    if not is_taken:
        raise OutputError(f"The message was not taken: {attempt.outcome}.")
    print(f"taken: the receiver answered {attempt.status} after {attempt.took_s:.2f} s")


def _told(hook: Webhook) -> dict[str, Any]:
    return {"id": hook.name} | {name: getattr(hook, name) for name in (*_TOLD, *_COUNTED)}


def _line(hook: Webhook) -> str:
    sent = f"{hook.matches:,} matches in {hook.messages:,} messages"
    last = "never" if hook.delivered_at is None else moment(round(hook.delivered_at * 1e6))
    trouble = f"  {one_line(hook.error, 60)}" if hook.error else ""
    return (
        f"{hook.name}  {hook.subscription:>6}  {hook.state:8}  {one_line(hook.url, 60)}  {sent}, last {last}{trouble}"
    )
