"""The command `tidings matches`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from contextlib import contextmanager

import pytest
from tests.cli.runs import TIDINGS, environment
from tests.store import batches

from tidings.cli.main import run
from tidings.cli.output import to_line
from tidings.store import open_store
from tidings.text.sanitize import clean_text

HOSTILE = "storm\r\n\x1b[2J\x1b]8;;http://evil\x07click\x1b]8;;\x07 \x9b31m\u202etxt.exe\x00 [bold]x[/] 東京"


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TIDINGS_STATE", raising=False)
    monkeypatch.delenv("TIDINGS_WORK", raising=False)


@pytest.fixture
def store():
    """A store with one subscription of ann."""
    with open_store("tidings-state") as opened:
        opened.subscriptions.add("storm", "ann")
        yield opened


@pytest.fixture
def run_matches(capsys):
    def run_it(*arguments: object) -> tuple[int, str, str]:
        code = run(["matches", *map(str, arguments)])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run_it


def commit_matches(store, batch, ids, **columns):
    """Commit a batch whose posts all match subscription 1."""
    posts = batches.posts(ids, **columns)
    batches.run_batch(store, batch, posts, [(1, row) for row in range(len(ids))])


def ids_of(out):
    return [json.loads(line)["post_id"] for line in out.splitlines()]


def test_match_is_one_line_of_cursor_id_time_author_text_and_link(store, run_matches):
    commit_matches(
        store, 1, ["007"], text=["A storm"], time=["2026-05-01T12:00:00Z"], author=["bo"], link=["http://x.y/1"]
    )
    code, out, err = run_matches(1)
    (match,) = store.matches.since(1)
    assert (code, out) == (0, f"{match.cursor}\t007\t2026-05-01T12:00:00Z\tbo\tA storm\thttp://x.y/1\n")
    assert err == f"tidings: continue with --since {match.cursor}\n"


def test_a_missing_time_or_author_is_a_plain_dash_and_values_are_neutralized(store, run_matches):
    commit_matches(store, 1, ["=a"], text=["-1+1"])
    commit_matches(store, 2, ["b"], text=["storm"], author=["@bo"])
    fields = [line.split("\t")[1:] for line in run_matches(1)[1].splitlines()]
    assert fields == [["'=a", "-", "-", "'-1+1", ""], ["b", "-", "'@bo", "storm", ""]]


def test_continuing_from_the_cursor_shows_each_match_once(store, run_matches):
    commit_matches(store, 1, list(range(5)))
    seen, cursor = [], 0
    while page := run_matches(1, "--since", cursor, "--limit", 2, "--json")[1]:
        seen += ids_of(page)
        cursor = json.loads(page.splitlines()[-1])["cursor"]
    assert seen == [0, 1, 2, 3, 4]
    code, out, err = run_matches(1, "--since", cursor)
    assert (code, out) == (0, "")
    assert err == f"tidings: no matches after cursor {cursor}; continue later with --since {cursor}\n"


def test_more_matches_are_announced(store, run_matches):
    commit_matches(store, 1, list(range(3)))
    assert "there are more; continue with --since" in run_matches(1, "--limit", 2)[2]
    assert "there are more" not in run_matches(1, "--limit", 3)[2]


def test_hundred_matches_are_shown_by_default(store, run_matches):
    commit_matches(store, 1, list(range(2500)))
    assert len(ids_of(run_matches(1, "--json")[1])) == 100
    matches = [json.loads(line) for line in run_matches(1, "--json", "--limit", 2300)[1].splitlines()]
    cursors = [match["cursor"] for match in matches]
    assert cursors == sorted(cursors)
    assert len({match["post_id"] for match in matches}) == len(set(cursors)) == 2300


def test_json_has_the_complete_match(store, run_matches):
    commit_matches(store, 1, [5], text=[HOSTILE], tags=[["a", "b"]], lat=[1.5], lon=[2.5])
    out = run_matches(1, "--json")[1]
    match = json.loads(out)
    assert match["text"] == clean_text(HOSTILE.replace("\x00", "\ufffd"))
    assert (match["tags"], match["lat"], match["index_version"], match["batch"]) == (["a", "b"], 1.5, 1, 1)
    assert "東京" in out
    assert not {"\x1b", "\x9b", "\u202e"} & set(out)


def test_control_characters_of_a_post_are_removed(store, run_matches):
    commit_matches(store, 1, ["i\x1b[1md"], text=[HOSTILE], author=["a\x1b[2J\nb"], link=["http://x\x1b[0m/\t1"])
    out = run_matches(1)[1]
    assert out.count("\n") == 1
    assert out.count("\t") == 5
    assert not {"\x1b", "\x9b", "\x07", "\x00", "\r", "\u202e"} & set(out)
    assert "\tid\t" in out
    assert "\tstorm [2J ]8;;http://evil click ]8;; 31mtxt.exe" in out
    assert "[bold]x[/] 東京" in out


def test_long_texts_are_truncated_to_cells():
    assert to_line("a" * 50, 10) == "a" * 9 + "…"
    assert to_line("東" * 50, 10) == "東" * 4 + "…"
    assert to_line("exactly 10", 10) == "exactly 10"
    assert len(to_line("z" + "\u0301" * 100_000, 10)) <= 41
    assert to_line("\x1b[0m" * 5 + "x\x1b", 10) == "x"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["2"], "Subscription 2 does not exist"),
        (["1", "--owner", "bob"], "Subscription 1 does not exist"),
        (["99999999999999999999999"], "does not exist"),
        (["one"], "valid integer"),
        (["1", "--limit", "0"], "--limit"),
    ],
)
def test_errors_are_reported_in_one_sentence(store, run_matches, arguments, sentence):
    code, out, err = run_matches(*arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert sentence in err


def test_owner_sees_its_matches(store, run_matches):
    commit_matches(store, 1, [1])
    assert ids_of(run_matches(1, "--owner", "ann", "--json")[1]) == [1]


def test_follow_ends_at_the_limit(store, run_matches):
    commit_matches(store, 1, list(range(5)))
    code, out, _ = run_matches(1, "--follow", "--limit", 3, "--json")
    assert (code, ids_of(out)) == (0, [0, 1, 2])


@contextmanager
def follow_process(*arguments):
    """Run `tidings matches 1 --follow` in a process of its own."""
    process = subprocess.Popen(
        [*TIDINGS, "matches", "1", "--follow", "--json", *arguments],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_follow_prints_new_matches_until_a_signal(store, number):
    commit_matches(store, 1, [1])
    with follow_process() as process:
        assert json.loads(process.stdout.readline())["post_id"] == 1
        commit_matches(store, 2, [2])
        stored_at = time.monotonic()
        match = json.loads(process.stdout.readline())
        assert match["post_id"] == 2
        assert time.monotonic() - stored_at < 2
        time.sleep(0.5)  # the cursor advances after a match is printed
        process.send_signal(number)
        out, err = process.communicate(timeout=10)
    assert (process.returncode, out) == (0, "")
    assert err == f"tidings: continue with --since {match['cursor']}\n"


def test_follow_ends_when_the_pipe_is_closed(store):
    commit_matches(store, 1, [1])
    with follow_process() as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(timeout=5) == 0
        assert process.stderr.read() == ""


def test_closed_pipe_is_not_an_error(store):
    commit_matches(store, 1, list(range(5000)))
    command = f"{' '.join(TIDINGS)} matches 1 --limit 5000 --json"
    done = subprocess.run(
        ["bash", "-c", f"{command} | head -1; echo ${{PIPESTATUS[0]}}"],
        env={**environment(), "PWD": os.getcwd()},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines()[1] == "0"


def test_follow_ends_when_the_subscription_is_removed(store):
    commit_matches(store, 1, [1])
    with follow_process() as process:
        process.stdout.readline()
        store.subscriptions.remove(1)
        _, err = process.communicate(timeout=10)
    assert (process.returncode, err) == (2, "tidings: Subscription 1 was removed.\n")
