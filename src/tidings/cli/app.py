"""The commands of `tidings`, assembled. Each command imports what it needs when it runs, so that --help is quick and
commands work without the extras that only others need."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from tidings.cli import (
    config,
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
    run,
    serve,
    status,
    subscribe,
    subscriptions,
    trends,
    webhooks,
)
from tidings.cli.options.config import FORMAT_VARIABLE, LEVEL_VARIABLE, set_up_logging
from tidings.version import __version__

app = typer.Typer(
    name="tidings",
    help="Match streams of posts against standing queries, on Spark.",
    epilog="Start with [bold]tidings demo[/], then [bold]tidings COMMAND --help[/] for examples of each command.",
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
_QUERY_ARGUMENT = {"ignore_unknown_options": True}  # a query may begin with a negation
app.command(name="match", help=match.HELP, epilog=match.EXAMPLES)(match.match)
app.command(name="explain", help=explain.HELP, epilog=explain.EXAMPLES, context_settings=_QUERY_ARGUMENT)(
    explain.explain
)
app.add_typer(plan.app, name="plan")
app.command(name="provision", help=provision.HELP, epilog=provision.EXAMPLES)(provision.provision)
app.command(name="correlate", help=correlate.HELP, epilog=correlate.EXAMPLES)(correlate.correlate)
app.command(name="trends", help=trends.HELP, epilog=trends.EXAMPLES)(trends.trends)
app.command(name="related", help=related.HELP, epilog=related.EXAMPLES)(related.related)
app.command(name="demo", help=demo.HELP, epilog=demo.EXAMPLES)(demo.demo)
app.command(name="run", help=run.HELP, epilog=run.EXAMPLES)(run.run)
app.add_typer(feeds.app, name="feeds")
app.command(name="crawl", help=crawl.HELP, epilog=crawl.EXAMPLES)(crawl.crawl)
app.command(name="subscribe", help=subscribe.HELP, epilog=subscribe.EXAMPLES, context_settings=_QUERY_ARGUMENT)(
    subscribe.subscribe
)
app.command(name="unsubscribe", help=subscriptions.UNSUBSCRIBE_HELP, epilog=subscriptions.UNSUBSCRIBE_EXAMPLES)(
    subscriptions.unsubscribe
)
app.command(name="subscriptions", help=subscriptions.HELP, epilog=subscriptions.EXAMPLES)(subscriptions.subscriptions)
app.command(name="matches", help=matches.HELP, epilog=matches.EXAMPLES)(matches.matches)
app.command(name="serve", help=serve.HELP, epilog=serve.EXAMPLES)(serve.serve)
app.add_typer(owners.app, name="owners")
app.add_typer(webhooks.app, name="webhooks")
app.command(name="status", help=status.HELP, epilog=status.EXAMPLES)(status.status)
app.add_typer(config.app, name="config")


class LogLevel(StrEnum):
    debug = "debug"
    info = "info"
    warning = "warning"
    error = "error"


class LogFormat(StrEnum):
    text = "text"
    json = "json"


def _print_version(is_requested: bool) -> None:
    if is_requested:
        print(f"tidings {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def tidings(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an unexpected error.")] = False,
    log_level: Annotated[
        LogLevel | None,
        typer.Option(
            metavar="debug|info|warning|error",
            envvar=LEVEL_VARIABLE,
            help="Least severe events to log on standard error.",
            show_default="info for run, crawl, serve, webhooks; else warning",
        ),
    ] = None,
    log_format: Annotated[
        LogFormat | None,
        typer.Option(
            metavar="text|json",
            envvar=FORMAT_VARIABLE,
            help="Log as lines of text or as JSON Lines.",
            show_default="text",
        ),
    ] = None,
) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())
    set_up_logging(context)


def build_command() -> Any:
    """Return the command `tidings` with all its subcommands, ready to parse a command line."""
    command = typer.main.get_command(app)
    _normalize_help(command)
    return command


def _normalize_help(command: Any) -> None:
    """Join the lines of a paragraph, and keep types such as `<bool>` out of the help of flags and arguments."""
    if command.help:
        command.help = "\n\n".join(" ".join(paragraph.split("\n")) for paragraph in command.help.split("\n\n"))
    help_option = command.get_help_option(typer.Context(command))
    for parameter in (*command.params, *([] if help_option is None else [help_option])):
        if parameter.param_type_name == "argument":
            parameter.display_type_rich = lambda ctx: None
        elif parameter.is_flag and parameter.metavar is None:
            parameter.metavar = ""
    for subcommand in getattr(command, "commands", {}).values():
        _normalize_help(subcommand)
