"""`tidings config show`: the effective options of a command, and where each value comes from."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from tidings.cli.console import screen
from tidings.cli.options.common import JsonOption
from tidings.cli.options.config import (
    COMMAND_SECTIONS,
    LOG_SECTION,
    SECTIONS,
    Setting,
    load_config,
    log_settings,
    origin_of,
    section_options,
)
from tidings.cli.output import ignore_closed_pipe, print_rich, safe_json
from tidings.errors import InputError

app = typer.Typer(help="Show the options that a configuration file and the command line result in.")
SHOW_HELP = """Show the effective options of COMMAND (run, crawl, serve or log; all of them by default).

Each value has its origin: command line, environment, file or default. Options after COMMAND belong to the command."""
SHOW_EXAMPLES = """[bold]Examples[/]

tidings config show --config tidings.toml

tidings config show --config tidings.toml run --matchers 16

tidings config show --config tidings.toml --json crawl"""


@app.command(
    "show",
    help=SHOW_HELP,
    epilog=SHOW_EXAMPLES,
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "allow_interspersed_args": False},
)
def show(
    context: typer.Context,
    command: Annotated[
        str | None, typer.Argument(metavar="COMMAND", help="Command with its options.", show_default="all")
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="TOML file to check and show.", show_default=False)
    ] = None,
    as_json: JsonOption = False,
) -> None:
    if command is not None and command.startswith("-"):
        raise InputError(f"{command}: no such option. Options of a command come after its name (`config show run …`).")
    if command is not None and command not in SECTIONS:
        raise InputError(f"{command}: not a command with a configuration. Choose one of: {', '.join(SECTIONS)}.")
    sections = SECTIONS if command is None else (command,)
    arguments = [argument for argument in context.args if argument != "--json"]
    settings = {section: _effective_settings(context, section, config, arguments) for section in sections}
    if as_json or "--json" in context.args:
        print(safe_json({section: _to_dict(rows) for section, rows in settings.items()}))
    else:
        with ignore_closed_pipe():
            _print(settings)


def _effective_settings(
    context: typer.Context, section: str, config: Path | None, arguments: list[str]
) -> list[Setting]:
    root = context.find_root()
    if section == LOG_SECTION:
        values = {} if config is None else load_config(config, root.command).get(LOG_SECTION, {})
        return list(log_settings(root, values))
    assert section in COMMAND_SECTIONS
    command: Any = root.command.commands[section]  # type: ignore[attr-defined]
    required = {parameter.name for parameter in command.params if parameter.required}
    for parameter in command.params:
        parameter.required = False  # show the others even if one that is required is missing
    given = [] if config is None else ["--config", str(config)]
    parsed = command.make_context(section, [*given, *arguments], parent=root)
    settings = []
    for option, parameter in section_options(section, root.command).items():
        value = _plain(parsed.params.get(parameter.name))
        is_missing = value is None and parameter.name in required
        settings.append(Setting(option, value, "required" if is_missing else origin_of(parsed, parameter.name)))
    return settings


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Enum):
        return value.value
    return str(value) if isinstance(value, Path) else value


def _to_dict(settings: list[Setting]) -> dict[str, Any]:
    return {setting.option: {"value": setting.value, "origin": setting.origin} for setting in settings}


def _print(settings: dict[str, list[Setting]]) -> None:
    for section, rows in settings.items():
        table = Table(escape(f"[{section}]"), "value", "origin", box=None, padding=(0, 2, 0, 0))
        for setting in rows:
            style = "dim" if setting.origin == "default" else ""
            table.add_row(
                setting.option, Text("-" if setting.value is None else str(setting.value)), setting.origin, style=style
            )
        print_rich(screen(), table, soft_wrap=False)
        print()
