"""The child processes of `tidings serve`: their command lines, their logging, and their output."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidings.cli.app import build_command
from tidings.cli.options.config import logging_environment
from tidings.cli.serve import ChildOptions, _log_line
from tidings.log import configure_logging


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (ChildOptions(), ["stream", "crawler", "webhooks"]),
        (ChildOptions(stream=False), ["crawler", "webhooks"]),
        (ChildOptions(crawl=False, webhooks=False), ["stream"]),
    ],
)
def test_only_enabled_children_run(options, names):
    assert list(options.commands(Path("in"), False, None)) == names


def test_command_lines_of_children_can_be_parsed():
    options = ChildOptions(allow=["loopback", "10.0.0.0/8"], keep_matches=5, keep_days=2.5)
    commands = options.commands(Path("in"), True, None)
    root = build_command()
    parsed = {
        name: root.commands[command].make_context(command, list(arguments)).params
        for name, (command, *arguments) in commands.items()
    }
    stream, crawler, webhooks = (parsed[name] for name in ("stream", "crawler", "webhooks"))
    assert (stream["posts"], stream["clean_source"], stream["keep_matches"], stream["keep_days"]) == (
        "in",
        "delete",
        5,
        2.5,
    )
    assert crawler["inbox"] == Path("in")
    assert crawler["allow"] == webhooks["allow"] == ["loopback", "10.0.0.0/8"]


def test_stream_and_crawler_read_the_configuration_file():
    commands = ChildOptions().commands(Path("in"), False, Path("tidings.toml"))
    assert [command[-2:] == ("--config", "tidings.toml") for command in commands.values()] == [True, True, False]


def test_children_log_like_their_parent():
    configure_logging("debug", "json")
    assert logging_environment() == {"TIDINGS_LOG_LEVEL": "debug", "TIDINGS_LOG_FORMAT": "json"}
    configure_logging("warning", "text")
    assert logging_environment() == {"TIDINGS_LOG_LEVEL": "warning", "TIDINGS_LOG_FORMAT": "text"}


def test_json_events_of_children_are_passed_on_and_other_lines_are_logged(capsys):
    configure_logging("info", "json")
    _log_line('stream: {"time": "2026-01-01", "event": "batch committed"}')
    _log_line("stream: started, process 7")
    passed, logged = capsys.readouterr().err.splitlines()
    assert passed == '{"time": "2026-01-01", "event": "batch committed"}'
    assert '"event": "stream: started, process 7"' in logged
