"""The child processes of `tidings serve`: their command lines, their logging, and their output."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.cli.runs import ROOT, environment

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
    options = ChildOptions(allow=["loopback", "10.0.0.0/8"], keep_matches=5, keep_days=2.5, webhook_backlog=3)
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
    assert (crawler["inbox"], crawler["webhook_backlog"]) == (Path("in"), 3)
    assert crawler["allow"] == webhooks["allow"] == ["loopback", "10.0.0.0/8"]


def test_the_backlog_of_the_configuration_file_is_not_overridden():
    assert "--webhook-backlog" not in ChildOptions().commands(Path("in"), False, None)["crawler"]


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


def test_children_import_nothing_from_the_working_directory(tmp_path):
    (tmp_path / "asyncio.py").write_text("open('imported', 'w')")
    options = ["--state", "state", "--bind", "127.0.0.1:0", "--no-stream", "--no-crawl"]
    command = [sys.executable, "-P", "-m", "tidings.cli.main", "serve", *options]
    environ = {**environment(), "PYTHONPATH": str(ROOT / "src")}
    with subprocess.Popen(command, cwd=tmp_path, env=environ, stderr=subprocess.DEVNULL) as process:
        lock, deadline = tmp_path / "state" / "sender.lock", time.monotonic() + 60
        while not lock.exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        process.terminate()
    assert lock.exists()  # the sender of webhooks has started
    assert not (tmp_path / "imported").exists()
