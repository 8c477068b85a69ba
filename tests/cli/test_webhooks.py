"""`tidings webhooks`: reasons why it does not start; webhooks are added, listed, tested and removed."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tidings.cli.main import run
from tidings.store import open_store


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("TIDINGS_STATE", "TIDINGS_WORK", "TIDINGS_ALLOW"):
        monkeypatch.delenv(name, raising=False)


def rejection(capsys, *arguments: str) -> str:
    assert run(["webhooks", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    return printed.err


def test_state_must_exist(capsys):
    assert "no state found" in rejection(capsys)


def test_invalid_network_is_rejected(capsys, monkeypatch):
    assert "'intranet': not a network" in rejection(capsys, "--allow", "intranet")
    monkeypatch.setenv("TIDINGS_ALLOW", "10.1.0.0/16 nonsense")
    assert "'nonsense': not a network" in rejection(capsys)


def test_second_sender_is_rejected_and_names_the_first(capsys):
    with open_store("tidings-state") as store, store.lease("sender"):
        assert "is running already: process" in rejection(capsys)


@pytest.fixture
def subscription():
    with open_store("tidings-state") as store:
        return store.subscriptions.add("tea")


def run_json(capsys, *arguments: str) -> list[dict]:
    assert run(["webhooks", *arguments, "--json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_webhook_is_added_listed_and_removed(capsys, subscription):
    (webhook,) = run_json(capsys, "add", str(subscription), "https://example.org/in")
    assert webhook["secret"].startswith("whsec_")
    (listed,) = run_json(capsys, "list")
    assert (listed["id"], listed["url"], listed["state"]) == (webhook["id"], "https://example.org/in", "active")
    assert "secret" not in listed
    assert run_json(capsys, "list", "--owner", "somebody") == []
    assert run(["webhooks", "remove", webhook["id"]]) == 0
    capsys.readouterr()
    assert run_json(capsys, "list") == []
    assert run(["webhooks", "list"]) == 0
    assert "no webhooks; add one" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("add", "99", "https://example.org/"), "99"),
        (("add", "1", "ftp://example.org/"), "address"),
        (("remove", "x"), "x"),
    ],
)
def test_unknown_ids_and_invalid_urls_are_rejected(capsys, subscription, arguments, reason):
    assert reason in rejection(capsys, *arguments)


@pytest.mark.parametrize(("status", "code"), [(204, 0), (500, 1)])
def test_exit_code_of_a_test_message(capsys, subscription, status, code):
    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self):
            seen.append(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["type"])
            self.send_response(status)
            self.end_headers()

        def log_message(self, *arguments):
            pass

    seen: list[str] = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        (webhook,) = run_json(capsys, "add", str(subscription), f"http://127.0.0.1:{server.server_port}/")
        assert run(["webhooks", "test", webhook["id"]]) == 1  # not a public address
        assert "is on a private network" in capsys.readouterr().err
        assert run(["webhooks", "test", webhook["id"], "--allow", "loopback"]) == code
        server.shutdown()
    assert (str(status) in "".join(capsys.readouterr()), seen) == (True, ["webhook.test"])


def test_options_before_the_subcommand_are_rejected(capsys):
    assert "tidings webhooks list … --state …" in rejection(capsys, "--state", "news", "list")
