"""`tidings hooks` says in one sentence why it does not begin; webhooks are made, listed, tried out and removed."""

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


def refused(capsys, *arguments: str) -> str:
    assert run(["hooks", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    return printed.err


def test_where_there_is_no_state_there_is_nothing_to_send(capsys):
    assert "there is no state here" in refused(capsys)


def test_what_is_no_network_cannot_be_allowed(capsys, monkeypatch):
    assert "'intranet' is no network" in refused(capsys, "--allow", "intranet")
    monkeypatch.setenv("TIDINGS_ALLOW", "10.1.0.0/16 nonsense")
    assert "'nonsense' is no network" in refused(capsys)


def test_a_second_sender_is_refused_and_names_the_first(capsys):
    with open_store("tidings-state") as store, store.hold_sender():
        assert "is run by process" in refused(capsys)


@pytest.fixture
def subscription():
    with open_store("tidings-state") as store:
        return store.subscribe("tea")


def told(capsys, *arguments: str) -> list[dict]:
    assert run(["hooks", *arguments, "--json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_webhook_is_made_listed_and_removed(capsys, subscription):
    (made,) = told(capsys, "add", str(subscription), "https://example.org/in")
    assert made["secret"].startswith("whsec_")
    (listed,) = told(capsys, "list")
    assert (listed["id"], listed["url"], listed["state"]) == (made["id"], "https://example.org/in", "active")
    assert "secret" not in listed
    assert told(capsys, "list", "--owner", "somebody") == []
    assert run(["hooks", "remove", made["id"]]) == 0
    capsys.readouterr()
    assert told(capsys, "list") == []
    assert run(["hooks", "list"]) == 0
    assert "there are no webhooks" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("add", "99", "https://example.org/"), "99"),
        (("add", "1", "ftp://example.org/"), "address"),
        (("remove", "x"), "x"),
    ],
)
def test_what_is_not_there_or_no_address_is_refused(capsys, subscription, arguments, why):
    assert why in refused(capsys, *arguments)


@pytest.mark.parametrize(("status", "code"), [(204, 0), (500, 1)])
def test_a_test_message_tells_whether_it_was_taken(capsys, subscription, status, code):
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
        (made,) = told(capsys, "add", str(subscription), f"http://127.0.0.1:{server.server_port}/")
        assert run(["hooks", "test", made["id"]]) == 1  # not a public address
        assert "not at a public address" in capsys.readouterr().err
        assert run(["hooks", "test", made["id"], "--allow", "loopback"]) == code
        server.shutdown()
    assert (str(status) in "".join(capsys.readouterr()), seen) == (True, ["webhook.test"])


def test_options_before_a_command_are_not_passed_over(capsys):
    assert "write: tidings hooks list … --state …" in refused(capsys, "--state", "news", "list")
