"""`tidings owners`, and the start and the end of `tidings serve`."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import socket
import stat
import subprocess
import time
import urllib.request
from urllib.error import HTTPError

import pytest
from tests.cli.runs import TIDINGS, environment, run_command, run_here

from tidings.cli import owners
from tidings.store import open_store
from tidings.store.feeds import Feeds

ALONE = ("--no-stream", "--no-crawl", "--no-webhooks")


def test_owners_are_added_listed_changed_and_removed(tmp_path):
    added, duplicate, invalid, quotas, listed, revoked, given, removed, gone = run_here(
        [
            ["owners", "add", "ann", "--subscriptions", "5", "--json"],
            ["owners", "add", "ann"],
            ["owners", "add", "Ann!"],
            ["owners", "quotas", "ann", "--feeds", "7", "--json"],
            ["owners", "list", "--json"],
            ["owners", "revoke", "ann"],
            ["owners", "token", "ann"],
            ["owners", "remove", "ann"],
            ["owners", "revoke", "ann"],
        ],
        tmp_path,
    )
    token = added.summary["token"]
    assert (duplicate.code, invalid.code, gone.code) == (2, 2, 2)
    assert "already" in duplicate.err
    assert "not a valid name" in invalid.err
    assert quotas.summary["quotas"] == {
        "subscriptions": 5,
        "feeds": 7,
        "posts_per_day": 100_000,
        "query_cost": 20_000,
    }
    assert json.loads(listed.out)["tokens"] == 1
    assert token not in listed.out
    assert revoked.out == "1 token of ann revoked\n"
    assert re.fullmatch(r"tidings_[\w-]{43}\n", given.out)
    assert given.out.strip() != token
    assert removed.code == 0
    assert "Owner ann does not exist. `tidings owners list`" in gone.err


def test_removing_an_owner_removes_its_feeds(tmp_path):
    with open_store(tmp_path) as store:
        store.accounts.add("ann")
        store.feeds.add("https://e.org/rss", "ann")
    (removed,) = run_here([["owners", "remove", "ann", "--state", tmp_path]], tmp_path)
    assert removed.code == 0
    with open_store(tmp_path) as store:
        assert list(store.feeds.all()) == []


@pytest.fixture
def start_server(tmp_path):
    """Starts `tidings serve` without children; returns its process and its first lines."""
    running = []

    def start(*options):
        command = [*TIDINGS, "serve", "--state", str(tmp_path), "--bind", "127.0.0.1:0", *ALONE, *options]
        process = subprocess.Popen(
            command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
        )
        running.append(process)
        lines = [process.stdout.readline()]
        if not lines[-1].startswith("open "):
            lines.append(process.stdout.readline())
        return process, lines

    yield start
    for process in running:
        process.kill()
        process.communicate()


def test_first_start_creates_an_owner_and_saves_its_token_for_this_user_only(start_server, tmp_path, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # a log with colours is not a terminal
    process, lines = start_server()
    file = tmp_path / "first-token"
    assert lines[0] == f"owner me, token in {file} (delete the file when you have read it)\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    token, address = file.read_text().strip(), re.fullmatch(r"open (http://127\.0\.0\.1:\d+)/\n", lines[1])[1]
    request = urllib.request.Request(f"{address}/api/me", headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert json.load(answer)["name"] == "me"
    with pytest.raises(HTTPError, match="401"):
        urllib.request.urlopen(f"{address}/api/me", timeout=10)
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 0
    _, again = start_server("--public-url", "https://tidings.example.org/")
    assert again == ["open https://tidings.example.org/\n"]


def test_first_start_prints_the_token_on_a_terminal_only(tmp_path):
    main, terminal = pty.openpty()
    command = [*TIDINGS, "serve", "--state", str(tmp_path / "state"), "--bind", "127.0.0.1:0", *ALONE]
    process = subprocess.Popen(command, env=environment(), stdout=terminal, stderr=subprocess.DEVNULL)
    try:
        with open(main, encoding="utf-8") as screen:
            lines = [screen.readline(), screen.readline()]
    finally:
        process.kill()
        process.wait()
        os.close(terminal)
    token = re.search(r"owner me, token (tidings_\S+) \(it is not shown again\)", lines[0])[1]
    assert f"/#token={token}" in lines[1]
    assert not (tmp_path / "state" / "first-token").exists()


def test_a_second_server_on_the_same_state_is_refused_with_the_process_that_runs(start_server, tmp_path):
    process, _ = start_server()
    refused = run_command("serve", "--state", tmp_path, "--bind", "127.0.0.1:0", *ALONE)
    assert (refused.code, refused.out, refused.err.count("\n")) == (2, "", 1)
    assert f"The service of {tmp_path} is running already: process {process.pid} on " in refused.err
    process.kill()
    process.wait()
    start_server()  # a killed server leaves nothing that stops the next one


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_stops_the_server_while_a_client_is_connected(start_server, tmp_path, number):
    process, lines = start_server()
    with open_store(tmp_path) as store:
        path = f"/read/{store.feed_urls.get_or_create(store.subscriptions.add('storm', 'me'))}/live"
    with urllib.request.urlopen(lines[1].split()[1].rstrip("/") + path, timeout=10) as live:
        assert live.readline().startswith(b":")
        began = time.monotonic()
        process.send_signal(number)
        assert process.wait(10) == 0
        assert time.monotonic() - began < 5
    assert "Traceback" not in process.stderr.read()


def test_invalid_options_of_serve_are_rejected_in_one_sentence(tmp_path):
    with socket.socket() as used:
        used.bind(("127.0.0.1", 0))
        used.listen()
        port = used.getsockname()[1]
        results = run_here(
            [
                ["serve", "--bind", f"127.0.0.1:{port}", *ALONE],
                ["serve", "--bind", "8080", *ALONE],
                ["serve", "--bind", f"{'é' * 70}.org:80", *ALONE],
                ["serve", "--public-url", "example.org", *ALONE],
                ["serve", "--public-url", "http://[", *ALONE],
                ["serve", "--allow", "nonsense", *ALONE],
            ],
            tmp_path,
        )
    assert [result.code for result in results] == [2] * 6, results
    assert all(result.err.count("\n") == 1 for result in results), results
    assert "Address already in use" in results[0].err


def test_interrupted_removal_of_an_owner_can_be_repeated(tmp_path, monkeypatch):
    with open_store(tmp_path) as store:
        store.accounts.add("ann")
        store.feeds.add("https://e.org/rss", "ann")

    def interrupt(feeds, feed, owner):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Feeds, "remove", interrupt)
        with pytest.raises(KeyboardInterrupt):
            owners.remove("ann", str(tmp_path))
    owners.remove("ann", str(tmp_path))
    with open_store(tmp_path) as store:
        assert store.accounts.all() == []
        assert list(store.feeds.all()) == []
