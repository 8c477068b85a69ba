"""`tidings serve`: the API, the page and the feeds; it also runs the stream, the crawler and the webhook sender."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer
from rich.text import Text

from tidings.cli.console import printable, screen
from tidings.cli.crawl import INBOX, WEBHOOK_BACKLOG_HELP, InboxOption
from tidings.cli.options.allow import AllowOption
from tidings.cli.options.common import KeepDaysOption, KeepMatchesOption
from tidings.cli.options.config import ConfigOption, logging_environment
from tidings.cli.options.connections import ConnectionOptions
from tidings.cli.options.groups import expand_groups
from tidings.cli.options.state import DEFAULT_STATE, StateLocation, StateOption, WorkDirOption, locate_state
from tidings.errors import InputError
from tidings.extras import require_extra
from tidings.private_files import write_private

if TYPE_CHECKING:
    from socket import socket

    from tidings.net.allowlist import AllowedNetworks
    from tidings.web.connection_limits import ConnectionLimits
    from tidings.web.context import AppContext
    from tidings.web.supervise import Child

HELP = """Serve a page with live matches, the API, and a feed for every subscription, at one address.

The stream, the crawler and the sender of webhooks run as child processes and are restarted when they exit. They read
the sections [bold]run[/] and [bold]crawl[/] of --config; what serve itself sets wins.

The first start creates the owner [bold]me[/] and prints its token, once; if the output is not a terminal, the token is
in the file [bold]first-token[/] of the state. `tidings owners add NAME` creates other owners. Ctrl-C stops everything;
the next start continues there."""
EXAMPLES = """[bold]Examples[/]

tidings serve --state news

tidings serve --config tidings.toml

tidings serve --state news --bind 0.0.0.0:8080 --public-url https://tidings.example.org

tidings feeds add https://example.org/news.rss --state news [dim]# before or while it runs[/]"""
LOG = logging.getLogger("tidings.cli")
_FIRST_OWNER = "me"
_STREAM_START_S, _PHASE_POLL_S = 20.0, 0.25  # how long the crawler waits for the stream
FIRST_TOKEN = "first-token"


@dataclass(frozen=True, slots=True)
class ChildOptions:
    """Which child processes run."""

    PANEL = "Child processes"

    stream: Annotated[bool, typer.Option(help="Run the stream; not if `tidings run` runs elsewhere.")] = True
    crawl: Annotated[bool, typer.Option(help="Run the crawler.")] = True
    webhooks: Annotated[bool, typer.Option(help="Send webhooks.")] = True
    webhook_backlog: Annotated[
        int | None, typer.Option(metavar="N", min=0, help=WEBHOOK_BACKLOG_HELP, show_default="0")
    ] = None
    allow: AllowOption = None
    keep_matches: KeepMatchesOption = 10_000
    keep_days: KeepDaysOption = 30.0

    def commands(self, inbox: Path, passes_inbox: bool, config: Path | None) -> dict[str, tuple[str, ...]]:
        """Return the command lines of the child processes by name."""
        file = () if config is None else ("--config", str(config))
        retention = ("--keep-matches", str(self.keep_matches), "--keep-days", str(self.keep_days))
        networks = tuple(word for network in self.allow or () for word in ("--allow", network))
        backlog = () if self.webhook_backlog is None else ("--webhook-backlog", str(self.webhook_backlog))
        box = ("--inbox", str(inbox)) if passes_inbox else ()
        commands = {
            "stream": ("run", "--posts", str(inbox), "--clean-source", "delete", *retention, *file),
            "crawler": ("crawl", *box, *networks, *backlog, *file),
            "webhooks": ("webhooks", *networks),
        }
        enabled = {"stream": self.stream, "crawler": self.crawl, "webhooks": self.webhooks}
        return {name: command for name, command in commands.items() if enabled[name]}


@expand_groups
def serve(
    children: ChildOptions,
    connections: ConnectionOptions,
    state: StateOption = DEFAULT_STATE,
    work_dir: WorkDirOption = None,
    bind: Annotated[str, typer.Option(metavar="HOST:PORT", help="Address to listen on.")] = "127.0.0.1:8080",
    public_url: Annotated[
        str | None, typer.Option(metavar="URL", help="Public URL of the service.", show_default="the address of --bind")
    ] = None,
    inbox: InboxOption = None,
    config: ConfigOption = None,
) -> None:
    from tidings.net.allowlist import AllowedNetworks

    require_extra("serve")
    location, allowed = locate_state(state, work_dir), AllowedNetworks.parse(children.allow or [])
    (host, port), limits = _parse_address(bind), connections.limits()
    inbox_dir = inbox or location.work_dir / INBOX
    location.protect()
    from tidings.cli.service_lease import service_lease
    from tidings.web.listener import open_listener

    with ExitStack() as stack:
        stack.enter_context(service_lease(location))
        _create_inbox(inbox_dir)
        listener = stack.enter_context(open_listener(host, port))
        url = _check_public_url(public_url) or _local_url(host, listener)
        commands = children.commands(inbox_dir, inbox is not None or location.is_database, config)
        processes = {name: _child(name, command, location) for name, command in commands.items()}
        context = _open_context(stack, location, inbox_dir, url, allowed, processes.get("stream"))
        _print_greeting(context, url, location.work_dir)
        _run(context, listener, limits, list(processes.values()))


def _parse_address(bind: str) -> tuple[str, int]:
    host, _, port = bind.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise InputError(f"--bind {bind}: not an address. Give HOST:PORT, such as 127.0.0.1:8080.")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _check_public_url(url: str | None) -> str | None:
    if url is None:
        return None
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # brackets without an address, or a port that is not a number
        is_address = False
    if not is_address or parts.query or parts.fragment:
        raise InputError(f"--public-url {url}: not a URL. Give one such as https://tidings.example.org.")
    return url.rstrip("/")


def _local_url(host: str, listener: socket) -> str:
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{shown}:{listener.getsockname()[1]}"


def _create_inbox(inbox: Path) -> None:
    try:
        inbox.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{inbox}: the inbox cannot be created ({error.strerror or error}).") from error


def _open_context(
    stack: ExitStack,
    location: StateLocation,
    inbox: Path,
    address: str,
    allowed: AllowedNetworks,
    stream: Child | None,
) -> AppContext:
    from tidings.web.check_process import CheckProcess
    from tidings.web.context import AppContext
    from tidings.web.notifier import build_notifier
    from tidings.web.stream_phase import phase_reader

    writing, reading = stack.enter_context(location.open_or_create()), stack.enter_context(location.open_or_create())
    checker = stack.enter_context(CheckProcess(inbox, location.work_dir / "history"))
    read_phase = phase_reader(location.work_dir, None if stream is None else stream.is_alive)
    notifier = build_notifier(reading, read_phase)
    return AppContext(reading, writing, inbox, checker, notifier, address, allow=allowed, read_phase=read_phase)


def _print_greeting(context: AppContext, address: str, folder: Path) -> None:
    """Print the URL, and on the first start the token; without a terminal it goes to a file that only we can read."""
    token = context.write_store.accounts.add_first(_FIRST_OWNER)
    out, link = screen(), f"{address}/"
    if token is not None and sys.stdout.isatty():  # not out.is_terminal, which FORCE_COLOR sets
        out.print(Text(f"owner {_FIRST_OWNER}, token {token} (it is not shown again)"), soft_wrap=True)
        link += f"#token={token}"
    elif token is not None:
        out.print(Text(f"owner {_FIRST_OWNER}, {_save_token(folder / FIRST_TOKEN, token)}"), soft_wrap=True)
    out.print(Text(f"open {link}"), soft_wrap=True)
    sys.stdout.flush()


def _save_token(file: Path, token: str) -> str:
    """Save the token, because a log is no place for it; return where it is."""
    try:
        write_private(file, f"{token}\n")
    except OSError as error:
        reason = error.strerror or error
        return f"token not saved ({file}: {reason}): create one with `tidings owners token {_FIRST_OWNER}`"
    return f"token in {file} (delete the file when you have read it)"


def _child(name: str, command: tuple[str, ...], location: StateLocation) -> Child:
    from tidings.web.supervise import Child

    environment = location.child_environment | logging_environment()
    return Child(name, (sys.executable, "-m", "tidings.cli.main", *command), environment)


def _run(context: AppContext, listener: socket, limits: ConnectionLimits, children: list[Child]) -> None:
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve_until_stopped(context, listener, limits, children))


def _log_line(line: str) -> None:
    """Log a line about a child or of a child; an event that the child logged as JSON is passed on unchanged."""
    _, _, text = line.partition(": ")
    if text.startswith('{"time":'):
        sys.stderr.write(f"{text}\n")
    else:
        LOG.info(printable(line))


async def _keep_running_in_turn(child: Child, children: list[Child], context: AppContext, stop: asyncio.Event) -> None:
    """Run a child. The crawler lets the stream start first: two JVMs that start at once delay the first match."""
    from tidings.web.supervise import keep_running

    deadline = time.monotonic() + _STREAM_START_S
    if child.name == "crawler" and any(other.name == "stream" for other in children):
        while not stop.is_set() and context.read_phase() != "running" and time.monotonic() < deadline:
            await asyncio.sleep(_PHASE_POLL_S)
    await keep_running(child, stop, _log_line)


async def _serve_until_stopped(
    context: AppContext, listener: socket, limits: ConnectionLimits, children: list[Child]
) -> None:
    """Answer requests and supervise the children until SIGINT or SIGTERM, even if the store is not reachable."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with asyncio.TaskGroup() as group:
        for child in children:
            group.create_task(_keep_running_in_turn(child, children, context, stop))
        await asyncio.sleep(0)  # the children start while this process imports the web application
        from tidings.web.server import http_server

        async with http_server(context, listener, limits):
            await stop.wait()
            LOG.info("stopping")
