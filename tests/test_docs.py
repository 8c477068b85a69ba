"""Links, line lengths and commands in the documentation."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tidings.cli.app import build_command

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "examples/README.md")]
PAGES += sorted((ROOT / "docs").rglob("*.md"))
GENERATED = {"docs/cli.md", "docs/benchmarks.md", "docs/lab/report.md"}  # other tests check them
MAX_COLUMNS = 100
LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCE = re.compile(r"^\s*```.*?^\s*```", re.MULTILINE | re.DOTALL)
OPTION = re.compile(r"--?[a-z]")


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def is_wrapped(line: str) -> bool:
    """Return whether the limit applies: tables and lines that one link makes long cannot be wrapped."""
    return not line.lstrip().startswith("|") and max(map(len, line.split() or [""])) <= MAX_COLUMNS // 2


def command_lines(text: str) -> Iterator[list[str]]:
    """Yield the arguments of the `tidings` commands in code blocks."""
    for block in FENCE.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line.strip().removeprefix("$ "), comments=True) if "tidings" in line else []
            if words and words[0] in ("tidings", ".venv/bin/tidings"):
                yield words[1:]


def find_problem(arguments: list[str]) -> str | None:
    """Return the first command or option that does not exist."""
    command, rest = build_command(), list(arguments)
    options = {"--help", *option_names(command)}  # options of `tidings` may follow the command
    while hasattr(command, "commands") and rest and re.fullmatch("[a-z]+", rest[0]):
        if rest[0] not in command.commands:
            return rest[0]
        command = command.commands[rest.pop(0)]
        options |= option_names(command)
    if arguments[:2] == ["config", "show"]:  # also takes the options of a command
        options |= {name for word in rest for name in option_names(build_command().commands.get(word))}
    given = (word.partition("=")[0] for word in rest if OPTION.match(word))
    return next((word for word in given if word not in options), None)


def option_names(command: Any) -> set[str]:
    return {name for parameter in getattr(command, "params", ()) for name in parameter.opts + parameter.secondary_opts}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_relative_links_lead_to_files(page: Path) -> None:
    links = [link.partition("#")[0] for link in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8")))]
    assert [link for link in links if link and ":" not in link and not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", [page for page in PAGES if name_of(page) not in GENERATED], ids=name_of)
def test_lines_have_at_most_100_columns(page: Path) -> None:
    lines = FENCE.sub("", page.read_text(encoding="utf-8")).splitlines()
    assert [line for line in lines if len(line) > MAX_COLUMNS and is_wrapped(line)] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_in_code_blocks_exist_with_their_options(page: Path) -> None:
    commands = list(command_lines(page.read_text(encoding="utf-8")))
    assert [arguments for arguments in commands if find_problem(arguments)] == []
    assert commands or name_of(page) != "README.md"


@pytest.mark.parametrize(
    ("line", "problem"),
    [("tell", "tell"), ("plan relearned", "relearned"), ("match posts --into x", "--into"), ("match p --out x", None)],
)
def test_unknown_commands_and_options_are_found(line: str, problem: str | None) -> None:
    assert find_problem(line.split()) == problem
