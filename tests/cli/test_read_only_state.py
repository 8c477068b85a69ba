"""A state that this user may not write can be read; a command that would change it says so."""

from __future__ import annotations

import errno
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.runs import _RUN_COMMANDS, CommandResult, environment
from tests.store.batches import posts, run_batch

from tidings.cli.options.state import StateLocation
from tidings.errors import InputError
from tidings.store import open_store
from tidings.store.sqlite import FILE

NAMESPACE = ("unshare", "--user", "--map-root-user", "--mount")
MOUNT = 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1"'
READS = (
    ("matches", "1", "--json"),
    ("subscriptions", "--json"),
    ("status", "--json"),
    ("feeds", "list", "--json"),
    ("owners", "list", "--json"),
)
WRITES = (
    ("subscribe", "flood"),
    ("unsubscribe", "1"),
    ("owners", "token", "ann"),
    ("feeds", "add", "https://a.example/rss"),
    ("webhooks",),
    ("run", "--posts", "."),
    ("crawl", "--once"),
    ("serve", "--bind", "127.0.0.1:0"),
)


@pytest.fixture(scope="module", autouse=True)
def mounts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mount")
    command = [*NAMESPACE, "sh", "-c", MOUNT, "sh", str(folder)]
    if shutil.which("unshare") is None or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("unprivileged users cannot mount a directory read-only on this system")


def run_read_only(state, commands) -> list[CommandResult]:
    """Run commands in turn in one process that sees the state as read-only."""
    script = f'{MOUNT} && exec "$2" -c "$3"'
    done = subprocess.run(
        [*NAMESPACE, "sh", "-c", script, "sh", str(state), sys.executable, _RUN_COMMANDS],
        env={**environment(), "TIDINGS_STATE": str(state)},
        input=json.dumps([list(command) for command in commands]),
        capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [CommandResult(*json.loads(line)) for line in done.stdout.splitlines()]


def fill(store):
    subscription = store.subscriptions.add("storm")
    store.accounts.add("ann")
    store.feeds.add("https://known.example/rss")
    run_batch(store, 0, posts([7], text=["a storm"]), [(subscription, 0)])


def check_reads(results):
    assert [result.code for result in results] == [0] * len(READS), [result.err for result in results]
    assert json.loads(results[0].out)["post_id"] == 7
    assert all(word in result.out for result, word in zip(results[1:], ("storm", "never", "known", "ann"), strict=True))


def test_a_closed_state_is_read_and_a_write_is_refused_with_one_sentence(tmp_path):
    with open_store(tmp_path) as store:
        fill(store)
    results = run_read_only(tmp_path, [*READS, *WRITES])
    check_reads(results[: len(READS)])
    for result in results[len(READS) :]:
        assert (result.code, result.err.count("\n")) == (2, 1), result
        assert f"{tmp_path}: the state is read-only for this user" in result.err


def test_the_state_of_another_user_is_refused_with_one_sentence(tmp_path, monkeypatch):
    def exists(path):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "exists", exists)
    with pytest.raises(InputError, match=r"this user may not read the state\. Run"):
        StateLocation(str(tmp_path), tmp_path).open_existing()


def test_a_write_ahead_log_that_was_left_is_read_too(tmp_path):
    state = tmp_path / "copy"
    state.mkdir()
    with open_store(tmp_path / "original") as store:
        fill(store)
        for name in (FILE, f"{FILE}-wal"):
            shutil.copy(tmp_path / "original" / name, state / name)
    assert (state / f"{FILE}-wal").stat().st_size > 0
    results = run_read_only(state, [*READS, WRITES[0]])
    check_reads(results[:-1])
    assert (results[-1].code, "the state is read-only" in results[-1].err) == (2, True)


def test_a_state_is_read_while_another_process_writes_it(tmp_path):
    with open_store(tmp_path) as store:
        fill(store)
        results = run_read_only(tmp_path, [*READS, WRITES[0]])
        store.subscriptions.add("later")
    check_reads(results[:-1])
    assert (results[-1].code, "the state is read-only" in results[-1].err) == (2, True)
