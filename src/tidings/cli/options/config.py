"""The option `--config FILE`: defaults of options from a TOML file with the sections [run], [crawl], [serve] and [log].

A value on the command line wins over an environment variable, that over the file, and that over the default.
"""

from __future__ import annotations

import difflib
import logging
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple, cast

import typer

from tidings.errors import InputError
from tidings.log import JsonFormatter, LogFormat, configure_logging

COMMAND_SECTIONS = ("run", "crawl", "serve")
LOG_SECTION = "log"
LEVEL_VARIABLE, FORMAT_VARIABLE = "TIDINGS_LOG_LEVEL", "TIDINGS_LOG_FORMAT"
SECTIONS = (*COMMAND_SECTIONS, LOG_SECTION)
_NOT_IN_FILES = ("config", "help")
_ORIGINS = {"COMMANDLINE": "command line", "ENVIRONMENT": "environment", "DEFAULT_MAP": "file"}
_INFO_COMMANDS = ("run", "crawl", "serve", "webhooks")  # they run until they are stopped, so they report what they do

Config = dict[str, dict[str, Any]]


class Setting(NamedTuple):
    """An option with its effective value and where that comes from."""

    option: str
    value: Any
    origin: str


def load_config(path: Path, root: Any) -> Config:
    """Read and check a file; return the values by section and parameter name. `root` is the command `tidings`.

    Raises InputError, with the closest valid name, for unknown sections and options and for invalid values.
    """
    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise InputError(f"--config {path}: cannot be read ({error.strerror or error}).") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not valid TOML ({error}).") from None
    config: Config = {}
    for section, values in content.items():
        if section not in SECTIONS:
            raise InputError(f"{path}: unknown section [{section}]. {_suggest(section, SECTIONS)}")
        if not isinstance(values, dict):
            raise InputError(f"{path}: {section} is a section. Write [{section}] and its options below it.")
        config[section] = _check_section(path, section, values, root)
    return config


def section_options(section: str, root: Any) -> dict[str, Any]:
    """Return the parameters that a section can set, by the name they have in files."""
    if section == LOG_SECTION:
        return {
            parameter.name.removeprefix("log_"): parameter
            for parameter in root.params
            if parameter.name in ("log_level", "log_format")
        }
    options = {_file_name(parameter): parameter for parameter in root.commands[section].params}
    return {name: parameter for name, parameter in options.items() if name not in _NOT_IN_FILES}


def _file_name(parameter: Any) -> str:
    """Return the name of an option in files: its long name without the dashes in front."""
    return next((str(name)[2:] for name in parameter.opts if name.startswith("--")), str(parameter.name))


def _check_section(path: Path, section: str, values: Mapping[str, Any], root: Any) -> dict[str, Any]:
    options = section_options(section, root)
    command = root if section == LOG_SECTION else root.commands[section]
    checked = {}
    for key, value in values.items():
        parameter = options.get(key.replace("_", "-"))
        if parameter is None:
            raise InputError(f"{path}: [{section}] has no option {key!r}. {_suggest(key.replace('_', '-'), options)}")
        checked[str(parameter.name)] = _check_value(f"{path}: [{section}] {key}", parameter, value, command)
    return checked


def _check_value(subject: str, parameter: Any, value: Any, command: Any) -> Any:
    """Return the value as the option takes it. Raises InputError with the option's own message."""
    is_flag = bool(getattr(parameter, "is_flag", False))
    if is_flag != isinstance(value, bool):
        raise InputError(
            f"{subject}: {value!r} is not valid. " + ("Give true or false." if is_flag else _kind(parameter))
        )
    if getattr(parameter, "multiple", False) != isinstance(value, list) or isinstance(value, dict):
        raise InputError(f"{subject}: {value!r} is not valid. {_kind(parameter)}")
    raw = value if is_flag else [str(item) for item in value] if isinstance(value, list) else str(value)
    try:
        parameter.process_value(typer.Context(command, info_name=command.name), raw)
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        reason = " ".join(error.format_message().split()).partition("': ")[2] or error.format_message()
        raise InputError(f"{subject} = {value!r}: {reason.rstrip('.')}.") from None
    return raw


def _kind(parameter: Any) -> str:
    return "Give a list of strings." if getattr(parameter, "multiple", False) else "Give a string or a number."


def _suggest(name: str, valid: Iterable[str]) -> str:
    valid = list(valid)
    close = difflib.get_close_matches(name, valid, 1, 0.5)
    return f"Did you mean {close[0]!r}?" if close else f"Valid names: {', '.join(valid)}."


def _apply_file(context: typer.Context, path: Path | None) -> Path | None:
    """Make the values of the file the defaults of the command, and set up logging."""
    if path is not None:
        root = context.find_root()
        config = load_config(path, root.command)
        context.default_map = config.get(str(context.info_name), {})
        set_up_logging(root, config.get(LOG_SECTION))
    return path


ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="TOML file with defaults for these options.",
        show_default=False,
        is_eager=True,
        callback=_apply_file,
    ),
]


def set_up_logging(root: Any, section: Mapping[str, Any] | None = None) -> None:
    """Configure logging from the options of `tidings`, the section [log] and the command that runs."""
    level, log_format = (setting.value for setting in log_settings(root, section or {}))
    configure_logging(level, cast(LogFormat, log_format))


def logging_environment() -> dict[str, str]:
    """Return the environment variables that give child processes the log level and format of this process."""
    logger = logging.getLogger("tidings")
    is_json = any(isinstance(handler.formatter, JsonFormatter) for handler in logger.handlers)
    return {
        LEVEL_VARIABLE: logging.getLevelName(logger.getEffectiveLevel()).lower(),
        FORMAT_VARIABLE: "json" if is_json else "text",
    }


def log_settings(root: Any, section: Mapping[str, Any]) -> tuple[Setting, Setting]:
    """Return the effective log level and log format."""
    usual = "info" if root.invoked_subcommand in _INFO_COMMANDS else "warning"
    return (
        _log_setting(root, "log_level", section, usual),
        _log_setting(root, "log_format", section, "text"),
    )


def _log_setting(root: Any, name: str, section: Mapping[str, Any], default: str) -> Setting:
    option = name.removeprefix("log_")
    if (given := root.params.get(name)) is not None:
        return Setting(option, given.value, origin_of(root, name))
    return Setting(option, section[name], "file") if name in section else Setting(option, default, "default")


def origin_of(context: Any, name: str) -> str:
    """Return where the value of a parameter comes from: command line, environment, file or default."""
    source = context.get_parameter_source(name)
    return "default" if source is None else _ORIGINS.get(source.name, "default")
