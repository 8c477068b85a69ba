"""A wrong command line gets one sentence and exit code 2, before Spark is loaded."""

from __future__ import annotations

import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidings
from tidings.cli.main import run


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A folder with valid and invalid files."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "posts.jsonl").write_text('{"text": "storm"}\n')
    (tmp_path / "subs.txt").write_text("storm\n")
    (tmp_path / "there.csv").write_text("old\n")
    (tmp_path / "empty").mkdir()
    (tmp_path / "mixed").mkdir()
    (tmp_path / "mixed" / "a.csv").write_text("text\n")
    (tmp_path / "mixed" / "b.jsonl").write_text("{}\n")
    (tmp_path / "no-text.csv").write_text("id,body\n1,storm\n")
    (tmp_path / "junk.parquet").write_text("this is not Parquet at all")
    (tmp_path / "subs.csv").write_text("name,query\n1,storm\n")
    pq.write_table(pa.table({"text": [1, 2]}), tmp_path / "numbers.parquet")
    return tmp_path


VALID = {"posts": "posts.jsonl", "--subscriptions": "subs.txt", "--out": "out"}


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"posts": "nowhere.jsonl"}, "nowhere.jsonl: no such file or directory."),
        ({"posts": "*.pq"}, "*.pq: no file matches this pattern."),
        ({"posts": "empty"}, "empty: the directory is empty"),
        ({"posts": "mixed"}, "several formats: CSV (mixed/a.csv) and JSON Lines (mixed/b.jsonl)"),
        ({"posts": "subs.txt"}, "subs.txt: unknown format"),
        ({"posts": "no-text.csv"}, "no-text.csv: the column `text` is missing. The columns are: 'id', 'body'."),
        ({"posts": "junk.parquet"}, "junk.parquet: cannot be read as Parquet"),
        ({"posts": "numbers.parquet"}, "numbers.parquet: the column `text` has type int64."),
        ({"posts": "s3://bucket/posts"}, "posts must be local files"),
        ({"--subscriptions": "nowhere.txt"}, "nowhere.txt: no such file."),
        ({"--subscriptions": "subs.csv"}, "subs.csv: the column `id` is missing"),
        ({"--out": "there.csv"}, "there.csv: already exists. Choose another OUT or add --overwrite."),
        ({"--out": "no/such/folder/out"}, "no such directory"),
        ({"--out": "out.csv.gz"}, "compressed output is not supported"),
        ({"--out": "subs.txt", "--overwrite": None}, "OUT would replace the input subs.txt"),
        ({"--plan": "clever"}, "'clever' is not one of 'auto', 'replicated', 'partitioned'"),
        ({"--matchers": "0"}, "greater than or equal to 1"),
        ({"--matchers": "5000"}, "less than or equal to 1024"),
        ({"--matchers": "many"}, "valid integer"),
        ({"--partitioner": "clever"}, "neither an algorithm nor a plan file. Choose one of: hash, salb+"),
        ({"--master": "nonsense"}, "not a Spark master URL"),
        ({"--master": "local[0]"}, "not a Spark master URL"),
        ({"--master": "spark://localhost:1"}, "no connection. Check that the master runs."),
        ({"--plann": "auto"}, "--plan"),
    ],
)
def test_invalid_arguments_are_rejected_in_one_sentence(files, capsys, changed, sentence):
    given = {**VALID, **changed}
    options = [part for name, value in given.items() if name != "posts" for part in (name, value) if part is not None]
    before = sorted(files.rglob("*"))
    code = run(["match", given["posts"], *options])
    printed = capsys.readouterr()
    assert (code, printed.out, printed.err.count("\n")) == (2, "", 1), printed.err
    assert printed.err.startswith("tidings: ")
    assert sentence in printed.err
    assert sorted(files.rglob("*")) == before


def test_folder_without_write_permission_is_rejected(files, capsys, monkeypatch):
    monkeypatch.setattr("os.access", lambda path, mode: not mode & os.W_OK)  # root may write anywhere
    assert run(["match", "posts.jsonl", "-s", "subs.txt", "-o", "out"]) == 2
    assert "no permission to write" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["mach"], ["match"], ["match", "posts"], ["--verison"]])
def test_typing_errors_and_missing_parts_get_one_line(capsys, arguments):
    assert run(arguments) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert "--help" in printed.err


def test_closest_command_is_suggested(capsys):
    run(["explian"])
    assert "Did you mean 'explain'" in capsys.readouterr().err


def test_version_is_printed(capsys):
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"tidings {tidings.__version__}\n"


@pytest.mark.parametrize("arguments", [[], ["--help"], ["match", "--help"], ["explain", "--help"], ["demo", "--help"]])
def test_help_has_examples(capsys, arguments):
    assert run(arguments) == 0
    out = capsys.readouterr().out
    assert "tidings demo" in out if len(arguments) < 2 else "Examples" in out


def test_unexpected_error_has_a_traceback_only_with_debug(capsys, monkeypatch):
    monkeypatch.setattr("tidings.cli.match.check_master", lambda master: 1 / 0)
    arguments = ["match", "posts", "-s", "subs", "-o", "out"]
    assert run(arguments) == 1
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "ZeroDivisionError: division by zero" in err
    assert run([*arguments, "--debug"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_demo_writes_a_sample(tmp_path, capsys):
    assert run(["demo", "--write", str(tmp_path / "sample")]) == 0
    assert len((tmp_path / "sample" / "posts.jsonl").read_text().splitlines()) == 20_000
    assert "storm" in (tmp_path / "sample" / "subscriptions.txt").read_text()
    (tmp_path / "file").write_text("")
    assert run(["demo", "--write", str(tmp_path / "file")]) == 1
    assert "cannot be written" in capsys.readouterr().err
