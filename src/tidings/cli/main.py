"""The entry point `tidings`: runs a command line and turns every error into one sentence and an exit code.

Exit codes: 0 done; 1 the machine or the environment failed; 2 the caller can correct it; 130 interrupted.
This module imports the commands late, so that signals are handled from the start.
"""

from __future__ import annotations

import atexit
import logging
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType

from tidings.errors import InputError, TidingsError

_SERVICES = ("run", "serve", "crawl")  # they run until they are stopped, so SIGTERM is no failure
_SERVICE_GROUPS = ("webhooks", "hooks")  # the same, unless a subcommand follows
_TERMINATED = 128 + signal.SIGTERM
_INTERRUPTED = 128 + signal.SIGINT
_DEBUG = "--debug"
_GLOBAL_OPTIONS = ("--log-level", "--log-format")


def run(arguments: Sequence[str]) -> int:
    """Run a command line and return its exit code. Errors are printed, with a traceback only for --debug."""
    from tidings.cli.app import build_command
    from tidings.cli.output import print_note
    from tidings.cli.renamed import apply_renames
    from tidings.extras import explain_missing

    debug = _DEBUG in arguments
    try:
        given = apply_renames(_move_global_options([word for word in arguments if word != _DEBUG]), print_note)
        return int(build_command().main(args=given, prog_name="tidings", standalone_mode=False) or 0)
    except TidingsError as error:
        return _report(error, debug)
    except ModuleNotFoundError as error:
        missing = explain_missing(error)
        return _report_unexpected(error, debug) if missing is None else _report(missing, debug)
    except Exception as error:
        return _report_usage(error) if hasattr(error, "format_message") else _report_unexpected(error, debug)


def _move_global_options(arguments: list[str]) -> list[str]:
    """Move --log-level and --log-format to the front: they may be given after the command too. Raises InputError."""
    front: list[str] = []
    rest: list[str] = []
    words = iter(arguments)
    for word in words:
        if word == "--":
            return [*front, *rest, word, *words]
        if word.partition("=")[0] not in _GLOBAL_OPTIONS:
            rest.append(word)
        elif "=" in word:
            front.append(word)
        elif (value := next(words, None)) is not None:
            front += [word, value]
        else:
            raise InputError(f"{word}: its value is missing. Try: tidings --help")
    return [*front, *rest]


def _report(error: TidingsError, debug: bool) -> int:
    from tidings.cli.console import print_error

    if debug:
        traceback.print_exc()
    print_error(error)
    return error.exit_code


def _report_usage(error: Exception) -> int:
    """Print the message of Typer about a wrong command line."""
    from tidings.cli.console import print_sentence

    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "tidings"
    message = " ".join(error.format_message().split()).replace("Value error, ", "")  # type: ignore[attr-defined]
    print_sentence(f"{message}{'' if message.endswith(('.', '?')) else '.'} Try: {command} --help")
    return 2


def _report_unexpected(error: Exception, debug: bool) -> int:
    from tidings.cli.console import print_sentence

    if debug:
        traceback.print_exception(error)
    first_line = (str(error).strip().splitlines() or [""])[0][:300]
    hint = "" if debug else " Add --debug for the traceback."
    print_sentence(f"unexpected error: {type(error).__name__}: {first_line}{_spark_log_hint()}{hint}")
    return 1


def _spark_log_hint() -> str:
    file = _spark_log_file()
    return f" (Spark's log: {file})" if file is not None and file.exists() else ""


def _spark_log_file() -> Path | None:
    run_files = sys.modules.get("tidings.spark.run_files")
    return None if run_files is None else run_files.log_file()


def _delete_spark_log(code: int) -> None:
    """Delete Spark's log unless a message may have referred to it."""
    if code in (0, _INTERRUPTED, _TERMINATED) and (file := _spark_log_file()) is not None:
        file.unlink(missing_ok=True)


def _exit_on_sigterm(arguments: Sequence[str]) -> None:
    """Clean up after SIGTERM as after Ctrl-C; services, which replace this when they run, exit immediately.

    A service that still imports has nothing to finish, and a callback of a compiler would swallow an exception.
    """
    is_service = _is_service(arguments)

    def exit_program(number: int, frame: FrameType | None) -> None:
        if is_service:
            atexit._run_exitfuncs()
            os._exit(0)
        raise SystemExit(_TERMINATED)

    signal.signal(signal.SIGTERM, exit_program)


def _is_service(arguments: Sequence[str]) -> bool:
    """Return whether a command line runs until it is stopped; some commands do so only without a subcommand."""
    words = _skip_global_options(arguments)
    command = next((word for word in words if not word.startswith("-")), None)
    if command in _SERVICE_GROUPS:
        return next(words, "-").startswith("-")  # a subcommand is not given after options
    return command in _SERVICES


def _skip_global_options(arguments: Sequence[str]) -> Iterator[str]:
    words = iter(arguments)
    for word in words:
        if word in _GLOBAL_OPTIONS:
            next(words, None)  # its value
        elif word != _DEBUG and word.partition("=")[0] not in _GLOBAL_OPTIONS:
            yield word


def main() -> None:
    os.environ.setdefault("PYTHONSAFEPATH", "1")  # child processes import nothing from the working directory
    _exit_on_sigterm(sys.argv[1:])
    if _DEBUG not in sys.argv:  # hide what pyspark and py4j print when they are interrupted
        logging.getLogger().addHandler(logging.NullHandler())
        warnings.filterwarnings("ignore", module="pyspark")
    try:
        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        code = _INTERRUPTED
    if code == _INTERRUPTED:
        from tidings.cli.console import print_sentence

        print_sentence("interrupted; no partial result was left.")
    _delete_spark_log(code)
    sys.exit(code)


if __name__ == "__main__":
    main()
