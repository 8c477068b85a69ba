"""A PostgreSQL server that goes away and comes back: nothing is lost, and who only asks goes on."""

from __future__ import annotations

import time

import pytest
from tests.web.conftest import client, opened
from tests.web.test_subscriptions import subscribe

from tidings.errors import StoreError
from tidings.store import open_store
from tidings_lab.postgres import binaries, running_server


@pytest.fixture(scope="module")
def server():
    if binaries() is None:
        pytest.skip("no PostgreSQL server here (apt-get install postgresql)")
    with running_server() as running:
        yield running


def test_a_store_goes_on_when_its_server_is_back(server):
    with open_store(server.url) as store:
        store.add_feed("https://a.example/")
        server.stop()
        for _ in range(3):
            with pytest.raises(StoreError):
                store.last_number()
            with pytest.raises(StoreError):
                store.add_feed("https://b.example/")
        server.start()
        until_back(store)
        store.add_feed("https://c.example/")
        assert [one.url for one in store.feeds()] == ["https://a.example/", "https://c.example/"]


def test_a_restart_between_two_questions_is_not_noticed(server):
    with open_store(server.url) as store:
        before = store.last_number()
        server.stop()
        server.start()
        assert store.last_number() == before
        server.stop()
        server.start()
        store.add_feed("https://d.example/")  # a transaction that had not begun


def test_a_transaction_is_not_continued_on_another_connection(server):
    def both_halves():
        with store.database.write():
            store.database.run("CREATE TABLE half (a BIGINT)")
            server.stop()
            server.start()
            store.database.run("CREATE TABLE other_half (a BIGINT)")

    with open_store(server.url) as store:
        with pytest.raises(StoreError):
            both_halves()
        assert store.database.rows("SELECT to_regclass('half'), to_regclass('other_half')") == [(None, None)]


def test_a_right_is_lost_with_the_connection_and_not_taken_for_granted(server):
    with open_store(server.url) as store, store.hold_crawler():
        server.stop()
        server.start()
        with pytest.raises(StoreError):
            store.last_number()


def test_the_api_refuses_meanwhile_and_goes_on(server, tmp_path):
    with opened(tmp_path, server.url) as service:
        ann = client(service, service.writing.accounts.add("ann"))
        made = subscribe(ann)
        server.stop()
        for answer in (ann.get("/api/me"), ann.delete(f"/api/subscriptions/{made['id']}"), ann.get("/read/x/rss")):
            assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
        server.start()
        until_back(service.reading)
        assert ann.get("/api/me").status_code == 200
        until_back(service.writing)
        assert ann.delete(f"/api/subscriptions/{made['id']}").status_code == 204


def until_back(store):
    """At most so long it is not tried again."""
    for _ in range(40):
        try:
            store.last_number()
            return
        except StoreError:
            time.sleep(0.1)
    raise AssertionError("it is not back")
