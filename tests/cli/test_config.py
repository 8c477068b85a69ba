"""Configuration files: every section is checked, and the command line wins over the file."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path

import pytest

from tidings.cli.main import run

DOCUMENT = Path(__file__).parents[2] / "docs" / "configuration.md"


@pytest.fixture
def write(tmp_path):
    def write_file(text: str) -> str:
        file = tmp_path / "tidings.toml"
        file.write_text(text)
        return str(file)

    return write_file


@pytest.fixture
def show(capsys):
    def show_config(*arguments: str) -> dict:
        assert run(["config", "show", "--json", *arguments]) == 0
        return json.loads(capsys.readouterr().out)

    return show_config


def test_command_line_wins_over_environment_over_file_over_default(write, show, monkeypatch):
    file = write('[run]\nposts = "in"\nmatchers = 4\nkeep_days = 7\nstate = "from-file"\nonce = true\n')
    monkeypatch.setenv("TIDINGS_STATE", "from-environment")
    settings = show("--config", file, "run", "--matchers", "16")["run"]
    assert settings["matchers"] == {"value": 16, "origin": "command line"}
    assert settings["state"] == {"value": "from-environment", "origin": "environment"}
    assert settings["keep-days"] == {"value": 7.0, "origin": "file"}
    assert settings["once"] == {"value": True, "origin": "file"}
    assert settings["posts"] == {"value": "in", "origin": "file"}
    assert settings["sink"] == {"value": "store", "origin": "default"}


def test_show_lists_all_sections_without_a_file(show):
    settings = show()
    assert set(settings) == {"run", "crawl", "serve", "log"}
    assert settings["run"]["posts"] == {"value": None, "origin": "required"}
    assert settings["log"]["format"] == {"value": "text", "origin": "default"}


def test_names_may_have_dashes_or_underscores_and_lists_are_lists(write, show):
    file = write('[crawl]\nat-least-every = "12 h"\nat_most_every = "1 min"\nallow = ["10.0.0.0/8", "loopback"]\n')
    settings = show("--config", file, "crawl")["crawl"]
    assert settings["at-least-every"]["value"] == "12 h"
    assert settings["at-most-every"]["value"] == "1 min"
    assert settings["allow"] == {"value": ["10.0.0.0/8", "loopback"], "origin": "file"}


def test_text_output_has_value_and_origin(write, capsys):
    assert run(["config", "show", "--config", write("[serve]\ncrawl = false\n"), "serve"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ["[serve]", "value", "origin"]
    assert ["crawl", "False", "file"] in lines
    assert ["bind", "127.0.0.1:8080", "default"] in lines


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[runs]\n", "unknown section [runs]. Did you mean 'run'?"),
        ("[zzz]\n", "unknown section [zzz]. Valid names: run, crawl, serve, log."),
        ("run = 1\n", "run is a section. Write [run] and its options below it."),
        ("[run]\nmatchrs = 4\n", "[run] has no option 'matchrs'. Did you mean 'matchers'?"),
        ("[run]\nmax_latncy = '5 s'\n", "[run] has no option 'max_latncy'. Did you mean 'max-latency'?"),
        ("[run]\nconfig = 'x'\n", "[run] has no option 'config'"),
        ("[run]\nmatchers = 5000\n", "less than or equal to 1024"),
        ("[run]\nmatchers = 'many'\n", "[run] matchers = 'many': Input should be a valid integer"),
        ("[run]\nmatchers = true\n", "[run] matchers: True is not valid. Give a string or a number."),
        ("[run]\nplan = 'clever'\n", "'clever' is not one of 'auto', 'replicated', 'partitioned'"),
        ("[run]\nonce = 'yes'\n", "[run] once: 'yes' is not valid. Give true or false."),
        ("[run]\ntrack = 'flood'\n", "[run] track: 'flood' is not valid. Give a list of strings."),
        ("[crawl]\nallow = 'loopback'\n", "[crawl] allow: 'loopback' is not valid. Give a list of strings."),
        ("[log]\nlevel = 'loud'\n", "'loud' is not one of 'debug', 'info', 'warning', 'error'"),
        ("[log]\nlevels = 'info'\n", "[log] has no option 'levels'. Did you mean 'level'?"),
        ("[run\n", "not valid TOML"),
    ],
)
@pytest.mark.parametrize("command", [["run", "--posts", "."], ["crawl"], ["serve"], ["config", "show"]])
def test_invalid_file_is_rejected_with_one_sentence_and_exit_code_2(write, capsys, command, text, sentence):
    file = write(text)
    assert run([*command, "--config", file]) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert f"tidings: {file}: " in printed.err
    assert sentence in printed.err


def test_missing_file_is_rejected(capsys):
    assert run(["run", "--config", "nowhere.toml"]) == 2
    assert capsys.readouterr().err == "tidings: --config nowhere.toml: cannot be read (No such file or directory).\n"


def test_values_of_the_file_reach_the_command_and_its_checks(write, tmp_path, capsys):
    file = write(f'[run]\nposts = "{tmp_path}"\ntrigger = "often"\n')
    assert run(["run", "--config", file, "--state", str(tmp_path / "state")]) == 2
    assert "--trigger 'often': not a duration" in capsys.readouterr().err
    assert run(["run", "--config", file, "--posts", "elsewhere"]) == 2
    assert "--posts elsewhere: no such directory" in capsys.readouterr().err


def test_required_option_may_come_from_the_file_only(write, capsys):
    assert run(["run", "--config", write("[run]\nonce = true\n")]) == 2
    assert "Missing option '--posts'" in capsys.readouterr().err


def test_unknown_command_has_no_configuration(capsys):
    assert run(["config", "show", "match"]) == 2
    assert (
        "match: not a command with a configuration. Choose one of: run, crawl, serve, log." in capsys.readouterr().err
    )
    assert run(["config", "show", "--jsn"]) == 2
    assert "--jsn: no such option." in capsys.readouterr().err


def test_log_level_and_format_come_from_file_or_command_line(write, show, tmp_path, capsys):
    file = write('[log]\nlevel = "debug"\nformat = "json"\n')
    assert show("--config", file, "log")["log"] == {
        "level": {"value": "debug", "origin": "file"},
        "format": {"value": "json", "origin": "file"},
    }
    assert run(["config", "show", "--config", file, "--json", "--log-level", "error", "log"]) == 0
    assert json.loads(capsys.readouterr().out)["log"]["level"] == {"value": "error", "origin": "command line"}
    run(["crawl", "--config", file, "--state", str(tmp_path / "none")])
    assert logging.getLogger("tidings").level == logging.DEBUG
    run(["crawl", "--config", file, "--state", str(tmp_path / "none"), "--log-level=warning"])
    assert logging.getLogger("tidings").level == logging.WARNING


@pytest.mark.parametrize(
    ("command", "level"), [("run", logging.INFO), ("serve", logging.INFO), ("status", logging.WARNING)]
)
def test_default_log_level_depends_on_the_command(command, level, tmp_path, capsys):
    file = tmp_path / "file"
    file.touch()
    assert run([command, "--state", str(file), *(["--posts", "."] if command == "run" else [])]) == 2
    assert logging.getLogger("tidings").level == level


@pytest.mark.parametrize("place", [0, 1, 3])
def test_log_options_may_stand_before_or_after_the_command(place, tmp_path, capsys):
    arguments = ["status", "--state", str(tmp_path)]
    assert run([*arguments[:place], "--log-level", "debug", *arguments[place:]]) == 2
    assert logging.getLogger("tidings").level == logging.DEBUG
    assert "no state found" in capsys.readouterr().err


def test_invalid_log_level_is_rejected(capsys):
    assert run(["status", "--log-level", "loud"]) == 2
    assert "'loud' is not one of" in capsys.readouterr().err
    assert run(["status", "--log-level"]) == 2
    assert "--log-level: its value is missing." in capsys.readouterr().err


def test_example_of_the_documentation_is_complete_and_valid(write, show):
    (example,) = re.findall(r"```toml\n(.*?)```", DOCUMENT.read_text("utf-8"), re.DOTALL)
    settings = show("--config", write(example))
    missing = {
        f"[{section}] {name}"
        for section, options in settings.items()
        for name, setting in options.items()
        if setting["origin"] != "file" and f"# {name} =" not in example
    }
    assert not missing
