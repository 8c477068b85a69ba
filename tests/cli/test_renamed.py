"""Old names of commands and options work, print one deprecation warning, and do not appear in the help."""

from __future__ import annotations

import pytest

from tidings.cli.app import build_command
from tidings.cli.main import run
from tidings.cli.renamed import COMMANDS, OPTIONS, apply_renames


def _find(path: str):
    command = build_command()
    for name in path.split():
        command = command.commands.get(name)
        if command is None:
            return None
    return command


def _names(path: str) -> set[str]:
    return {name for parameter in _find(path).params for name in (*parameter.opts, *parameter.secondary_opts)}


def _rename(*arguments: str) -> tuple[list[str], list[str]]:
    warnings: list[str] = []
    return apply_renames(arguments, warnings.append), warnings


ENTRIES = [(command, option) for option in OPTIONS for command in option.commands]


@pytest.mark.parametrize(("command", "option"), ENTRIES, ids=[f"{command} {option.old}" for command, option in ENTRIES])
def test_every_renamed_option_works_with_one_warning(command, option):
    assert option.new in _names(command)
    assert option.old not in _names(command)
    warning = f"{option.old} is deprecated and will be removed in 1.0; use {option.new}"
    assert _rename(*command.split(), option.old, "value") == ([*command.split(), option.new, "value"], [warning])
    assert _rename(*command.split(), f"{option.old}=value") == ([*command.split(), f"{option.new}=value"], [warning])
    assert _rename(*command.split(), option.new, "value") == ([*command.split(), option.new, "value"], [])
    for old, new in option.values.items():
        assert _rename(*command.split(), option.old, old)[0] == [*command.split(), option.new, new]
        assert _rename(*command.split(), f"{option.old}={old}")[0] == [*command.split(), f"{option.new}={new}"]


@pytest.mark.parametrize(("old", "new"), COMMANDS.items())
def test_every_renamed_command_works_with_one_warning(old, new, capsys):
    assert _find(old) is None
    warning = f"{old} is deprecated and will be removed in 1.0; use {new}"
    assert _rename(*old.split(), "--state", "s") == ([*new.split(), "--state", "s"], [warning])
    assert run([*old.split(), "--help"]) == 0
    printed = capsys.readouterr()
    assert printed.err == f"tidings: {warning}\n"
    assert f"tidings {new}" in printed.out


def test_a_repeated_old_option_warns_once():
    renamed, warnings = _rename("run", "--latency", "1 s", "--latency", "2 s", "--deliver", "out")
    assert renamed == ["run", "--max-latency", "1 s", "--max-latency", "2 s", "--sink", "out"]
    assert [warning.split()[0] for warning in warnings] == ["--latency", "--deliver"]


def test_an_old_option_after_a_renamed_subcommand_is_renamed_too():
    renamed, warnings = _rename("hooks", "add", "1", "https://example.org", "--work", "w")
    assert renamed == ["webhooks", "add", "1", "https://example.org", "--work-dir", "w"]
    assert len(warnings) == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["subscribe", "--", "--work"],
        ["explain", "--work"],
        ["subscribe", "hooks"],
        ["match", "hooks", "--relearn"],
        ["--version"],
        [],
    ],
)
def test_other_arguments_stay_as_they_are(arguments):
    assert _rename(*arguments) == (arguments, [])


def test_command_line_with_old_options_reaches_the_command(tmp_path, capsys):
    assert run(["run", "--posts", str(tmp_path), "--latency", "soon", "--state", str(tmp_path / "s")]) == 2
    warning, error = capsys.readouterr().err.splitlines()
    assert warning == "tidings: --latency is deprecated and will be removed in 1.0; use --max-latency"
    assert error.startswith("tidings: --max-latency 'soon': not a duration")
