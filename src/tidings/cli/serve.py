"""`tidings serve`: the API, the page and the feeds; it also runs the stream, the crawler and the webhook sender."""

from __future__ import annotations

import asyncio
import logging
import resource
import signal
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer
from rich.text import Text

from tidings.cli.console import printable, screen
from tidings.cli.crawl import INBOX, InboxOption
from tidings.cli.options.allow import AllowOption
from tidings.cli.options.common import KeepDaysOption, KeepMatchesOption
from tidings.cli.options.config import ConfigOption, logging_environment
from tidings.cli.options.groups import expand_groups
from tidings.cli.options.state import DEFAULT_STATE, StateLocation, StateOption, WorkDirOption, locate_state
from tidings.errors import InputError

if TYPE_CHECKING:
    from socket import socket

    from tidings.net.allowlist import AllowedNetworks
    from tidings.web.context import AppContext
    from tidings.web.supervise import Child

HELP = """Serve a page with live matches, the API, and a feed for every subscription, at one address.

The stream, the crawler and the sender of webhooks run as child processes and are restarted when they exit. They read
the sections [bold]run[/] and [bold]crawl[/] of --config; what serve itself sets wins.

The first start creates the owner [bold]me[/] and prints its token, once. `tidings owners add NAME` creates others.
Ctrl-C stops everything; the next start continues there."""
EXAMPLES = """[bold]Examples[/]

tidings serve --state news

tidings serve --config tidings.toml

tidings serve --state news --bind 0.0.0.0:8080 --public-url https://tidings.example.org

tidings feeds add https://example.org/news.rss --state news [dim]# before or while it runs[/]"""
LOG = logging.getLogger("tidings.cli")
_FIRST_OWNER = "me"
_MAX_OPEN_FILES = 8_192


@dataclass(frozen=True, slots=True)
class ChildOptions:
    """Which child processes run."""

    PANEL = "Child processes"

    stream: Annotated[bool, typer.Option(help="Run the stream; not if `tidings run` runs elsewhere.")] = True
    crawl: Annotated[bool, typer.Option(help="Run the crawler.")] = True
    webhooks: Annotated[bool, typer.Option(help="Send webhooks.")] = True
    allow: AllowOption = None
    keep_matches: KeepMatchesOption = 10_000
    keep_days: KeepDaysOption = 30.0

    def commands(self, inbox: Path, passes_inbox: bool, config: Path | None) -> dict[str, tuple[str, ...]]:
        """Return the command lines of the child processes by name."""
        file = () if config is None else ("--config", str(config))
        retention = ("--keep-matches", str(self.keep_matches), "--keep-days", str(self.keep_days))
        networks = tuple(word for network in self.allow or () for word in ("--allow", network))
        box = ("--inbox", str(inbox)) if passes_inbox else ()
        commands = {
            "stream": ("run", "--posts", str(inbox), "--clean-source", "delete", *retention, *file),
            "crawler": ("crawl", *box, *networks, *file),
            "webhooks": ("webhooks", *networks),
        }
        enabled = {"stream": self.stream, "crawler": self.crawl, "webhooks": self.webhooks}
        return {name: command for name, command in commands.items() if enabled[name]}


@expand_groups
def serve(
    children: ChildOptions,
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

    location, allowed = locate_state(state, work_dir), AllowedNetworks.parse(children.allow or [])
    host, port = _parse_address(bind)
    inbox_dir = inbox or location.work_dir / INBOX
    _create_inbox(inbox_dir)
    from tidings.web.server import open_listener

    with ExitStack() as stack:
        listener = stack.enter_context(open_listener(host, port))
        url = _check_public_url(public_url) or _local_url(host, listener)
        context = _open_context(stack, location, inbox_dir, url, allowed)
        _print_greeting(context, url)
        commands = children.commands(inbox_dir, inbox is not None or location.is_database, config)
        _run(context, listener, [_child(name, command, location) for name, command in commands.items()])


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
    stack: ExitStack, location: StateLocation, inbox: Path, address: str, allowed: AllowedNetworks
) -> AppContext:
    from tidings.web.context import AppContext
    from tidings.web.inbox_sampler import inbox_sampler
    from tidings.web.notifier import StoreNotifier
    from tidings.web.volume_estimate import VolumeEstimator

    writing, reading = stack.enter_context(location.open_or_create()), stack.enter_context(location.open_or_create())
    history = VolumeEstimator(location.work_dir / "history")
    stack.enter_context(inbox_sampler(inbox, history))
    notifier = StoreNotifier(reading.matches.last_number)
    return AppContext(reading, writing, inbox, history, notifier, address, allow=allowed)


def _print_greeting(context: AppContext, address: str) -> None:
    """Print the URL, and on the first start the token, which is printed nowhere else."""
    token = context.write_store.accounts.add_first(_FIRST_OWNER)
    out = screen()
    if token is not None:
        out.print(Text(f"owner {_FIRST_OWNER}, token {token} (it is not shown again)"), soft_wrap=True)
        out.print(Text(f"open {address}/#token={token}"), soft_wrap=True)
    else:
        out.print(Text(f"open {address}/"), soft_wrap=True)
    sys.stdout.flush()


def _child(name: str, command: tuple[str, ...], location: StateLocation) -> Child:
    from tidings.web.supervise import Child

    environment = {"TIDINGS_STATE": location.store, **logging_environment()}
    if location.is_database:
        environment["TIDINGS_WORK"] = str(location.work_dir)
    return Child(name, (sys.executable, "-m", "tidings.cli.main", *command), environment)


def _run(context: AppContext, listener: socket, children: list[Child]) -> None:
    import uvloop

    _allow_many_connections()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve_until_stopped(context, listener, children))


def _allow_many_connections() -> None:
    """Raise the limit of open files: every live reader needs one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(_MAX_OPEN_FILES, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, limit), hard))


def _log_line(line: str) -> None:
    """Log a line about a child or of a child; an event that the child logged as JSON is passed on unchanged."""
    _, _, text = line.partition(": ")
    if text.startswith('{"time":'):
        sys.stderr.write(f"{text}\n")
    else:
        LOG.info(printable(line))


async def _serve_until_stopped(context: AppContext, listener: socket, children: list[Child]) -> None:
    """Answer requests and supervise the children until SIGINT or SIGTERM, even if the store is not reachable."""
    from tidings.web.server import http_server
    from tidings.web.supervise import keep_running

    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with asyncio.TaskGroup() as group:
        for child in children:
            group.create_task(keep_running(child, stop, _log_line))
        async with http_server(context, listener):
            await stop.wait()
            LOG.info("stopping")
