"""The commands start without the packages of the extras; a missing one is named with the extra that installs it."""

from __future__ import annotations

import json
import sys

import pytest
from tests.spark.fixtures import run_python
from tests.test_extras import BLOCK

from tidings.cli.main import run

RUN = (
    BLOCK.replace('"pydantic", ', "")  # Typer installs it
    + """
import contextlib, io, json
from tidings.cli.main import run
for arguments in json.loads({commands!r}):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(arguments)
    print(json.dumps([code, out.getvalue(), err.getvalue()]))
"""
)


def _run_blocked(*commands: list[str]) -> list[tuple[int, str, str]]:
    program = RUN.replace("{commands!r}", repr(json.dumps(commands)))
    return [tuple(json.loads(line)) for line in run_python(program).stdout.splitlines()]


def test_help_explain_and_match_need_no_extra(tmp_path):
    help_, run_help, serve_help, explained, matched, planned = _run_blocked(
        ["--help"],
        ["run", "--help"],
        ["serve", "--help"],
        ["explain", "storm OR rain", "--text", "Heavy rain", "--json"],
        ["match", "nowhere.jsonl", "-s", str(tmp_path), "-o", str(tmp_path / "out")],
        ["plan", "show", "nowhere.plan"],
    )
    assert (help_[0], run_help[0], serve_help[0]) == (0, 0, 0)
    assert json.loads(explained[1])["is_match"] is True
    assert (matched[0], planned[0]) == (2, 2)
    assert "nowhere.jsonl: no such file" in matched[2]


def test_missing_package_is_reported_with_its_extra(tmp_path):
    results = _run_blocked(
        ["subscribe", "storm", "--state", str(tmp_path / "state")],
        ["feeds", "import", "feeds.opml"],
        ["serve", "--state", str(tmp_path / "state")],
        ["plan", "learn", ".", "--algorithm", "rtree", "--out", str(tmp_path / "plan")],
        ["match", ".", "-s", ".", "-o", str(tmp_path / "out"), "--partitioner", "gfc"],
    )
    assert [code for code, _, _ in results] == [2] * 5
    assert all(err.count("\n") == 1 and "pip install 'tidings[" in err for _, _, err in results), results


@pytest.mark.parametrize(
    ("command", "missing", "extra"), [("serve", "fastapi", "serve"), ("crawl", "feedparser", "crawl")]
)
def test_services_name_the_extra_that_brings_all_they_need(tmp_path, monkeypatch, capsys, command, missing, extra):
    for module in ("nh3", missing):  # nh3 alone would name the extra `stream`
        monkeypatch.setitem(sys.modules, module, None)
    assert run([command, "--state", str(tmp_path / "state")]) == 2
    assert capsys.readouterr().err.endswith(f"pip install 'tidings[{extra}]'\n")
    assert not (tmp_path / "state").exists()


def test_module_that_no_extra_installs_is_an_unexpected_error(monkeypatch, capsys):
    def fail(master):
        raise ModuleNotFoundError("No module named 'nonsense'", name="nonsense")

    monkeypatch.setattr("tidings.cli.match.check_master", fail)
    assert run(["match", "posts", "-s", "subs", "-o", "out"]) == 1
    assert "unexpected error: ModuleNotFoundError: No module named 'nonsense'" in capsys.readouterr().err


@pytest.mark.parametrize(("module", "extra"), [("apsw", "stream"), ("aiohttp", "crawl"), ("fastapi", "serve")])
def test_missing_module_of_an_extra_is_one_sentence_with_exit_code_2(module, extra, monkeypatch, capsys):
    def fail(master):
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)

    monkeypatch.setattr("tidings.cli.match.check_master", fail)
    assert run(["match", "posts", "-s", "subs", "-o", "out"]) == 2
    err = capsys.readouterr().err
    assert err.endswith(f"Install it with: pip install 'tidings[{extra}]'\n")
    assert err.count("\n") == 1
