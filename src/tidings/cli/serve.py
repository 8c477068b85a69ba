"""`tidings serve`: the API, the page and the feeds, with the stream and the crawler kept running beside them."""

from __future__ import annotations

import asyncio
import logging
import resource
import signal
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer
from rich.text import Text

from tidings.cli.console import printable, screen
from tidings.cli.options.allow import AllowOption
from tidings.cli.options.state import DEFAULT_STATE, State, StateOption, WorkOption, state_at
from tidings.cli.output import say
from tidings.errors import InputError

if TYPE_CHECKING:
    from socket import socket

    from tidings.net.allowlist import Allowed
    from tidings.web.context import Service
    from tidings.web.supervise import Child

HELP = """Serve everything at one address: a page to type queries and see matches live, the API, and a feed for every
subscription that any reader can poll. The stream, the crawler and the sender of webhooks run beside it and are started
again when they end.

The first start makes an owner called [bold]me[/] and prints its token, once. `tidings owner add NAME` makes others.
Ctrl-C ends all of it; the next start goes on from there."""
EXAMPLES = """[bold]Examples[/]

tidings serve --state news

tidings serve --state news --bind 0.0.0.0:8080 --public-url https://tidings.example.org

tidings feeds add https://example.org/news.rss --state news [dim]# while it runs, or before[/]"""
_FIRST_OWNER = "me"
_OPEN_FILES = 8_192


def serve(
    state: StateOption = DEFAULT_STATE,
    work: WorkOption = None,
    bind: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where to listen.")] = "127.0.0.1:8080",
    public_url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="The address others know it by.", show_default="where it listens"),
    ] = None,
    inbox: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where posts wait for the stream.", show_default="inbox in the state"),
    ] = None,
    stream: Annotated[bool, typer.Option(help="Run the stream too; not needed where `tidings run` runs.")] = True,
    crawl: Annotated[bool, typer.Option(help="Run the crawler too.")] = True,
    hooks: Annotated[bool, typer.Option(help="Send webhooks too.")] = True,
    allow: AllowOption = None,
    keep_matches: Annotated[int, typer.Option(min=1, help="The most matches kept a subscription.")] = 10_000,
    keep_days: Annotated[float, typer.Option(min=0.01, help="How long matches are kept.")] = 30.0,
) -> None:
    """Open, listen, run until told to end."""
    from tidings.net.allowlist import Allowed

    place, reached = state_at(state, work), Allowed.parse(allow or [])
    host, port = _address(bind)
    box = inbox or place.folder / "inbox"
    _make(box)
    from tidings.web.server import bound

    with ExitStack() as stack:
        listener = stack.enter_context(bound(host, port))
        address = _public(public_url) or _told_address(host, listener)
        service = _opened(stack, place, box, address, reached)
        _greet(service, address)
        kept = ("--keep-matches", str(keep_matches), "--keep-days", str(keep_days))
        networks = tuple(word for network in allow or () for word in ("--allow", network))
        posts = ("--inbox", str(box)) if inbox is not None or place.is_database else ()
        commands = {
            "stream": ("run", "--posts", str(box), "--processed", "delete", *kept) if stream else (),
            "crawler": ("crawl", *posts, *networks) if crawl else (),
            "webhooks": ("hooks", *networks) if hooks else (),
        }
        children = [_child(name, command, place) for name, command in commands.items() if command]
        _logged()
        _run(service, listener, children)


def _address(bind: str) -> tuple[str, int]:
    host, _, port = bind.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise InputError(f"--bind {bind}: give HOST:PORT, as in 127.0.0.1:8080.")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _public(url: str | None) -> str | None:
    if url is None:
        return None
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # brackets without an address in them, a port that is no number
        is_address = False
    if not is_address or parts.query or parts.fragment:
        raise InputError(f"--public-url {url}: give an address as in https://tidings.example.org.")
    return url.rstrip("/")


def _told_address(host: str, listener: socket) -> str:
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{shown}:{listener.getsockname()[1]}"


def _make(inbox: Path) -> None:
    try:
        inbox.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{inbox}: this cannot be the inbox: {error.strerror or error}.") from error


def _opened(stack: ExitStack, place: State, inbox: Path, address: str, reached: Allowed) -> Service:
    from tidings.web.context import Service
    from tidings.web.inbox_sampler import gathered
    from tidings.web.notifier import Pulse
    from tidings.web.volume_estimate import History

    writing, reading = stack.enter_context(place.make()), stack.enter_context(place.make())
    history = History(place.folder / "history")
    stack.enter_context(gathered(inbox, history))
    return Service(reading, writing, inbox, history, Pulse(reading.last_number), address, allow=reached)


def _greet(service: Service, address: str) -> None:
    """Where it is; and the first time the token, which is told nowhere else."""
    token = service.writing.accounts.add_first(_FIRST_OWNER)
    out = screen()
    if token is not None:
        out.print(Text(f"owner {_FIRST_OWNER}, token {token} (it is not shown again)"), soft_wrap=True)
        out.print(Text(f"open {address}/#token={token}"), soft_wrap=True)
    else:
        out.print(Text(f"open {address}/"), soft_wrap=True)
    sys.stdout.flush()


def _child(name: str, command: tuple[str, ...], place: State) -> Child:
    from tidings.web.supervise import Child

    environment = {"TIDINGS_STATE": place.where}
    if place.is_database:
        environment["TIDINGS_WORK"] = str(place.folder)
    return Child(name, (sys.executable, "-m", "tidings.cli.main", *command), environment)


def _logged() -> None:
    """What the web room logs goes to standard error, a line each."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("tidings: web: %(message)s"))
    logger = logging.getLogger("tidings.web")
    logger.addHandler(handler)
    logger.propagate = False


def _run(service: Service, listener: socket, children: list[Child]) -> None:
    import uvloop

    _allow_many_connections()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_until_told(service, listener, children))


def _allow_many_connections() -> None:
    """As many open files as the system lets us have: every reader that listens is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))


async def _until_told(service: Service, listener: socket, children: list[Child]) -> None:
    """Answer requests and keep the children going until SIGINT or SIGTERM, also while the store is away."""
    from tidings.web.server import answering
    from tidings.web.supervise import keep_going

    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with asyncio.TaskGroup() as group:
        for child in children:
            group.create_task(keep_going(child, stop, lambda line: say(printable(line))))
        async with answering(service, listener):
            await stop.wait()
            say("ending")
