"""`tidings webhooks`: send matches to webhooks; add, list, remove and test webhooks."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidings.cli.options.allow import AllowOption
from tidings.cli.options.common import JsonOption, OwnerFilterOption
from tidings.cli.options.state import DEFAULT_STATE, StateOption, WorkDirOption, locate_state, locate_written_state
from tidings.cli.output import ignore_closed_pipe, print_note, safe_json, to_line
from tidings.cli.values import format_time
from tidings.errors import InputError, OutputError

if TYPE_CHECKING:
    from tidings.delivery.webhooks.sender import Sender
    from tidings.store.webhooks import Webhook

HELP = """Send the matches of subscriptions to webhooks.

Without a command, send new matches until Ctrl-C; `tidings serve` does this too. Every message is signed as the Standard
Webhooks specification requires, is retried for three days until it is accepted, and keeps its `webhook-id`. Messages go
to public addresses only."""
EXAMPLES = """[bold]Examples[/]

tidings webhooks add 3 https://example.org/tidings --state news

tidings webhooks --state news [dim]# send[/]

tidings webhooks --state news --allow 10.1.0.0/16 [dim]# private receivers[/]"""
ADD_HELP = """Send the matches of a subscription to a URL. The secret that verifies messages is printed once."""
TEST_HELP = """Send one message of the type `webhook.test`. The exit code is 1 if it is not accepted."""

app = typer.Typer(help=HELP, epilog=EXAMPLES, rich_markup_mode="rich", invoke_without_command=True)
_WebhookArgument = Annotated[str, typer.Argument(metavar="ID", help="Id of the webhook.", show_default=False)]
_FIELDS = ("subscription", "owner", "url", "state", "error", "failures", "created_at", "delivered_at", "cursor")


@app.callback()
def webhooks(
    context: typer.Context,
    state: StateOption = DEFAULT_STATE,
    work_dir: WorkDirOption = None,
    allow: AllowOption = None,
) -> None:
    if context.invoked_subcommand is not None:
        _check_option_order(context)
        return
    from tidings.net.allowlist import AllowedNetworks

    allowed = AllowedNetworks.parse(allow or [])
    with locate_written_state(state, work_dir).open_existing() as store, store.lease("sender"):
        from tidings.delivery.webhooks.sender import Sender  # loads aiohttp

        asyncio.run(_send_until_stopped(Sender(store, allowed)))


def _check_option_order(context: typer.Context) -> None:
    """Raise InputError for options before the subcommand: it would ignore them."""
    for name in ("state", "work_dir", "allow"):
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            option, command = f"--{name.replace('_', '-')}", context.invoked_subcommand
            raise InputError(f"{option}: give it after the subcommand: tidings webhooks {command} … {option} …")


async def _send_until_stopped(sender: Sender) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await sender.run(stop)


@app.command("add", help=ADD_HELP)
def add(
    subscription: Annotated[
        int, typer.Argument(metavar="SUBSCRIPTION", min=1, help="Id of the subscription.", show_default=False)
    ],
    url: Annotated[str, typer.Argument(metavar="URL", help="URL of the receiver.", show_default=False)],
    after: Annotated[
        int | None,
        typer.Option(metavar="CURSOR", min=0, help="Also send stored matches after this cursor.", show_default=False),
    ] = None,
    as_json: JsonOption = False,
    state: StateOption = DEFAULT_STATE,
    work_dir: WorkDirOption = None,
) -> None:
    with locate_written_state(state, work_dir).open_existing() as store:
        webhook = store.webhooks.add(subscription, url, after=after)
    if as_json:
        print(safe_json({**_to_dict(webhook), "secret": webhook.secret}))
    else:
        print(f"{webhook.name}\n{webhook.secret}")
        print_note("the second line is the secret; it is not shown again")


@app.command("list", help="List the webhooks with their state.")
def list_webhooks(
    owner: OwnerFilterOption = None,
    as_json: JsonOption = False,
    state: StateOption = DEFAULT_STATE,
    work_dir: WorkDirOption = None,
) -> None:
    location, last = locate_state(state, work_dir), ""
    with location.open_existing() as store, ignore_closed_pipe():
        while page := store.webhooks.page(owner, last):
            for webhook in page:
                print(safe_json(_to_dict(webhook)) if as_json else _line(webhook))
            last = page[-1].name
    if not last and not as_json:
        print_note(f"no webhooks; add one with `tidings webhooks add SUBSCRIPTION URL{location.option}`")


@app.command("remove", help="Remove a webhook.")
def remove(webhook: _WebhookArgument, state: StateOption = DEFAULT_STATE, work_dir: WorkDirOption = None) -> None:
    with locate_written_state(state, work_dir).open_existing() as store:
        store.webhooks.remove(webhook)
    print_note(f"removed webhook {webhook}")


@app.command("test", help=TEST_HELP)
def send_test(
    webhook: _WebhookArgument,
    allow: AllowOption = None,
    as_json: JsonOption = False,
    state: StateOption = DEFAULT_STATE,
    work_dir: WorkDirOption = None,
) -> None:
    from tidings.delivery.webhooks.attempt import send_test
    from tidings.net.allowlist import AllowedNetworks

    allowed = AllowedNetworks.parse(allow or [])
    with locate_written_state(state, work_dir).open_existing() as store:
        stored = store.webhooks.get(webhook)
        attempt = asyncio.run(send_test(stored, allowed))
        store.webhooks.record_attempt(stored, attempt)
    is_accepted = attempt.status is not None and 200 <= attempt.status < 300
    if as_json:
        print(safe_json(attempt._asdict()))
        raise typer.Exit(0 if is_accepted else 1)
    if not is_accepted:
        raise OutputError(f"The message was not accepted: {attempt.outcome}.")
    print(f"accepted: the receiver answered {attempt.status} after {attempt.took_s:.2f} s")


def _to_dict(webhook: Webhook) -> dict[str, Any]:
    return {"id": webhook.name} | {name: getattr(webhook, name) for name in (*_FIELDS, "messages", "matches")}


def _line(webhook: Webhook) -> str:
    sent = f"{webhook.matches:,} matches in {webhook.messages:,} messages"
    last = "never" if webhook.delivered_at is None else format_time(round(webhook.delivered_at * 1e6))
    error = f"  {to_line(webhook.error, 60)}" if webhook.error else ""
    url = to_line(webhook.url, 60)
    return f"{webhook.name}  {webhook.subscription:>6}  {webhook.state:8}  {url}  {sent}, last {last}{error}"
