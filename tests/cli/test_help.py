"""The help of every command: complete, short, in plain words, and the same as docs/cli.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tidings.cli import reference
from tidings.cli.app import build_command
from tidings.cli.main import run

BANNED = re.compile(
    r"\b(anew|in vain|of use|of late|whoever|meanwhile|beside|at once|so many|so much|so often|so long|is none|thrice"
    r"|told|tells?|says?|said|hears?|knows?|wants?|minds?|mends?|mended|refused|withh[eo]ld|come what may|relearn"
    r"|figures|(posts|match(es|ers)|articles|updates|requests|queries) an?"
    r" (second|day|hour|line|post|subscription|batch))\b",
    re.IGNORECASE,
)
RAW_TYPE = re.compile(r"<(bool|str|int|float|path|text|enum|[a-z]+ range)\b", re.IGNORECASE)
REPOSITORY_FILE = re.compile(r"docs/|\.\./|Makefile|\bmake [a-z]|pyproject|constraints\.txt")
MAX_HELP_CHARACTERS = 80
REFERENCE = Path(__file__).parents[2] / "docs" / "cli.md"


def _walk(command, path: tuple[str, ...] = ()):
    yield path, command
    for name, subcommand in getattr(command, "commands", {}).items():
        yield from _walk(subcommand, (*path, name))


COMMANDS = dict(_walk(build_command()))
OPTIONS = {
    (*path, parameter.name): parameter
    for path, command in COMMANDS.items()
    for parameter in command.params
    if "completion" not in parameter.name
}


@pytest.mark.parametrize("parameter", OPTIONS.values(), ids=map(" ".join, OPTIONS))
def test_every_parameter_has_a_short_help_in_plain_words(parameter):
    text = parameter.help or ""
    assert text.endswith(".")
    assert len(text) <= MAX_HELP_CHARACTERS
    assert text[0].isupper()
    assert not BANNED.search(text)


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_the_help_of_every_command_is_in_plain_words_without_raw_types(path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert run([*path, "--help"]) == 0
    shown = capsys.readouterr().out
    assert not BANNED.search(shown)
    assert not RAW_TYPE.search(shown)
    assert not REPOSITORY_FILE.search(shown)
    assert (COMMANDS[path].help or "").strip()


def test_flags_show_no_type():
    for parameter in OPTIONS.values():
        if getattr(parameter, "is_flag", False):
            assert parameter.metavar == ""
        else:
            assert parameter.metavar


def test_reference_is_up_to_date_and_at_most_100_columns_wide():
    text = reference.render_reference()
    assert max(map(len, text.splitlines())) <= 100
    assert REFERENCE.read_text("utf-8") == text, "run: python -m tidings.cli.reference > docs/cli.md"


def test_reference_does_not_depend_on_the_terminal(monkeypatch):
    before = reference.render_reference()
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("TIDINGS_STATE", "/elsewhere")
    assert reference.render_reference() == before


def test_reference_has_every_command_but_no_hidden_option():
    text = reference.render_reference()
    assert all(f"`{' '.join(['tidings', *path])}`" in text for path in COMMANDS)
    assert "--calibrate" not in text
    assert "--seconds" not in text


def test_check_fails_if_the_reference_is_outdated(tmp_path, capsys):
    file = tmp_path / "cli.md"
    file.write_text(reference.render_reference())
    assert reference.main(["--check", str(file)]) == 0
    file.write_text(file.read_text() + "more\n")
    assert reference.main(["--check", str(file)]) == 1
    assert "is not up to date" in capsys.readouterr().err
    assert reference.main(["--check", str(tmp_path / "missing.md")]) == 1
    assert reference.main(["--check"]) == 2
