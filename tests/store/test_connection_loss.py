"""A PostgreSQL server is restarted: nothing is lost, and readers continue."""

from __future__ import annotations

import time

import pytest
from tests.web.conftest import client, open_context
from tests.web.test_subscriptions import subscribe

from tidings.errors import LeaseLost, StoreError
from tidings.store import open_store
from tidings.testing.postgres import binaries, running_server


@pytest.fixture(scope="module")
def server():
    if binaries() is None:
        pytest.skip("PostgreSQL is not installed (apt-get install postgresql)")
    with running_server() as running:
        yield running


def test_a_store_reconnects_when_the_server_is_back(server):
    with open_store(server.url) as store:
        store.feeds.add("https://a.example/")
        server.stop()
        for _ in range(3):
            with pytest.raises(StoreError):
                store.matches.last_number()
            with pytest.raises(StoreError):
                store.feeds.add("https://b.example/")
        server.start()
        wait_until_back(store)
        store.feeds.add("https://c.example/")
        assert [one.url for one in store.feeds.all()] == ["https://a.example/", "https://c.example/"]


def test_a_restart_between_two_queries_has_no_effect(server):
    with open_store(server.url) as store:
        before = store.matches.last_number()
        server.stop()
        server.start()
        assert store.matches.last_number() == before
        server.stop()
        server.start()
        store.feeds.add("https://d.example/")  # a transaction that had not begun


def test_a_transaction_does_not_continue_on_a_new_connection(server):
    def write_across_restart():
        with store.database.transaction():
            store.database.execute("CREATE TABLE half (a BIGINT)")
            server.stop()
            server.start()
            store.database.execute("CREATE TABLE other_half (a BIGINT)")

    with open_store(server.url) as store:
        with pytest.raises(StoreError):
            write_across_restart()
        assert store.database.fetch("SELECT to_regclass('half'), to_regclass('other_half')") == [(None, None)]


def test_a_lease_is_lost_with_the_connection(server):
    with open_store(server.url) as store, store.lease("crawler") as lease:
        lease.check()
        server.stop()
        server.start()
        with pytest.raises(LeaseLost, match=r"The crawler lost its lease of PostgreSQL database .* start it again"):
            lease.check()
        with pytest.raises(StoreError):
            store.matches.last_number()


def test_a_lease_whose_connection_was_lost_ends_without_an_error(server):
    with open_store(server.url) as store:
        with store.lease("crawler"):
            server.stop()
            server.start()
        with open_store(server.url) as other, other.lease("crawler") as lease:
            lease.check()


def test_the_api_answers_503_while_the_server_is_down(server, tmp_path):
    with open_context(tmp_path, server.url) as context:
        ann = client(context, context.write_store.accounts.add("ann"))
        made = subscribe(ann)
        server.stop()
        for answer in (ann.get("/api/me"), ann.delete(f"/api/subscriptions/{made['id']}"), ann.get("/read/x/rss")):
            assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
        server.start()
        wait_until_back(context.read_store)
        assert ann.get("/api/me").status_code == 200
        wait_until_back(context.write_store)
        assert ann.delete(f"/api/subscriptions/{made['id']}").status_code == 204


def wait_until_back(store):
    """Wait until the store has reconnected; it pauses between attempts."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            store.matches.last_number()
            return
        except StoreError:
            time.sleep(0.1)
    raise AssertionError("the store did not reconnect within 60 s")
