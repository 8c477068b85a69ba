"""The command `tidings`: what it knows to do, and how it ends when something goes wrong.

Exit codes: 0 done; 1 the machine failed; 2 the caller can mend it; 130 interrupted.
"""

from __future__ import annotations

import logging
import signal
import sys
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from tidings.cli import (
    correlate,
    crawl,
    demo,
    explain,
    feeds,
    match,
    matches,
    owners,
    plan,
    provision,
    related,
    serve,
    status,
    subscribe,
    subscriptions,
    trends,
    webhooks,
)
from tidings.cli import run as run_command
from tidings.cli.console import say_error, show_error
from tidings.errors import TidingsError
from tidings.version import __version__

_TERMINATED = 128 + signal.SIGTERM
_INTERRUPTED = 128 + signal.SIGINT
_DEBUG = "--debug"

app = typer.Typer(
    name="tidings",
    help="Standing queries over a firehose of posts, on Spark: say what you care about, get every post that says it.",
    epilog="Start with [bold]tidings demo[/], then [bold]tidings COMMAND --help[/] for examples of each command.",
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
app.command(name="match", help=match.HELP, epilog=match.EXAMPLES)(match.match)
app.command(
    name="explain", help=explain.HELP, epilog=explain.EXAMPLES, context_settings={"ignore_unknown_options": True}
)(explain.explain)
app.add_typer(plan.app, name="plan")
app.command(name="provision", help=provision.HELP, epilog=provision.EXAMPLES)(provision.provision)
app.command(name="correlate", help=correlate.HELP, epilog=correlate.EXAMPLES)(correlate.correlate)
app.command(name="trends", help=trends.HELP, epilog=trends.EXAMPLES)(trends.trends)
app.command(name="related", help=related.HELP, epilog=related.EXAMPLES)(related.related)
app.command(name="demo", help=demo.HELP, epilog=demo.EXAMPLES)(demo.demo)
app.command(name="run", help=run_command.HELP, epilog=run_command.EXAMPLES)(run_command.run)
app.add_typer(feeds.app, name="feeds")
app.command(name="crawl", help=crawl.HELP, epilog=crawl.EXAMPLES)(crawl.crawl)
app.command(
    name="subscribe",
    help=subscribe.HELP,
    epilog=subscribe.EXAMPLES,
    context_settings={"ignore_unknown_options": True},  # a query may begin with a negation
)(subscribe.subscribe)
app.command(name="unsubscribe", help=subscriptions.UNSUBSCRIBE_HELP, epilog=subscriptions.UNSUBSCRIBE_EXAMPLES)(
    subscriptions.unsubscribe
)
app.command(name="subscriptions", help=subscriptions.HELP, epilog=subscriptions.EXAMPLES)(subscriptions.subscriptions)
app.command(name="matches", help=matches.HELP, epilog=matches.EXAMPLES)(matches.matches)
app.command(name="serve", help=serve.HELP, epilog=serve.EXAMPLES)(serve.serve)
app.add_typer(owners.app, name="owner")
app.add_typer(webhooks.app, name="hooks")
app.command(name="status", help=status.HELP, epilog=status.EXAMPLES)(status.status)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"tidings {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _tidings(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and stop.")
    ] = False,
    debug: Annotated[bool, typer.Option(_DEBUG, help="Show the whole traceback of an unexpected error.")] = False,
) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


def run(arguments: Sequence[str]) -> int:
    """Carry out a command line; the exit code. Nothing but a traceback asked for by --debug is ever thrown at users."""
    given = [argument for argument in arguments if argument != _DEBUG]
    try:
        return int(app(args=given, prog_name="tidings", standalone_mode=False) or 0)
    except TidingsError as error:
        if _DEBUG in arguments:
            traceback.print_exc()
        show_error(error)
        return error.exit_code
    except Exception as error:
        return _unexpected(error, _DEBUG in arguments)


def _unexpected(error: Exception, debug: bool) -> int:
    """A wrong command line (it knows its own message), or something we did not foresee."""
    if hasattr(error, "format_message"):
        context = getattr(error, "ctx", None)
        command = context.command_path if context is not None else "tidings"
        message = " ".join(error.format_message().split()).replace("Value error, ", "")
        say_error(f"{message}{'' if message.endswith(('.', '?')) else '.'} Try: {command} --help")
        return 2
    if debug:
        traceback.print_exception(error)
    first = str(error).strip().splitlines()[:1] or [""]
    hint = "" if debug else " Add --debug for the traceback."
    say_error(f"something unexpected went wrong: {type(error).__name__}: {first[0][:300]}{_log()}{hint}")
    return 1


def _log() -> str:
    """Where Spark's own log is, if Spark was there at all."""
    file = _log_file()
    return f" (Spark's log: {file})" if file is not None and file.exists() else ""


def _log_file() -> Path | None:
    session = sys.modules.get("tidings.spark.session")
    return None if session is None else Path(session.LOG_FILE)


def _forget_log(code: int) -> None:
    """Spark's log is of use only where a message may have pointed to it."""
    if code in (0, _INTERRUPTED, _TERMINATED) and (file := _log_file()) is not None:
        file.unlink(missing_ok=True)


def _terminated(number: int, frame: FrameType | None) -> None:
    """Being ended by another program must clean up as being interrupted does."""
    raise SystemExit(_TERMINATED)


def main() -> None:
    """The entry point."""
    signal.signal(signal.SIGTERM, _terminated)
    if _DEBUG not in sys.argv:  # what pyspark and py4j say when they are interrupted is no use to users
        logging.getLogger().addHandler(logging.NullHandler())
        warnings.filterwarnings("ignore", module="pyspark")
    try:
        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        code = _INTERRUPTED
    if code == _INTERRUPTED:
        say_error("interrupted; nothing half-written was left behind.")
    _forget_log(code)
    sys.exit(code)


if __name__ == "__main__":
    main()
