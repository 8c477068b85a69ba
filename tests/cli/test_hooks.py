"""`tidings hooks` says in one sentence why it does not begin."""

from __future__ import annotations

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
