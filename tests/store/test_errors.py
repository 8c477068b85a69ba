"""What goes wrong is said in one sentence, and nothing half-written stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import apsw
import pytest
from tests.store.batches import ids, matches, posts, run
from tests.store.conftest import new_schema

from tidings.errors import StoreBusy, StoreDamaged, StoreError, StoreFull
from tidings.store import Store, open_store, schema
from tidings.store.sqlite import FILE, SAFE_VERSION

ROOT = Path(__file__).resolve().parents[2]


def child(code: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, text=True, cwd=ROOT)


def test_the_sqlite_in_use_has_no_wal_reset_bug():
    assert tuple(map(int, apsw.sqlite_lib_version().split("."))) >= SAFE_VERSION


def test_a_full_disk_is_told_and_leaves_nothing_behind(tmp_path):
    with open_store(tmp_path) as store:
        subscription = store.subscribe("a")
        run(store, 0, [1], [(subscription, 0)])
        pages = store.database.rows("PRAGMA page_count")[0][0]
        store.database.rows(f"PRAGMA max_page_count = {pages + 4}")
        many = posts(list(range(2, 3_000)), text=["x" * 500] * 2_998)
        with pytest.raises(StoreFull, match="No room left"):
            run(store, 1, many, [(subscription, row) for row in range(2_998)])
        assert ids(store, subscription) == [1]
        assert [line.state for line in store.ledger()] == ["done", "begun"]
        store.database.rows("PRAGMA max_page_count = 1000000")
        assert run(store, 1, many, [(subscription, row) for row in range(2_998)]).matches == 2_998


def test_a_store_of_a_newer_version_is_refused(where):
    with open_store(where) as store:
        store.database.run("UPDATE store_version SET version = 99")
    with pytest.raises(StoreDamaged, match=r"has version 99 .* use a newer Tidings"):
        open_store(where)


def test_an_older_store_is_migrated(where, monkeypatch):
    with open_store(where) as store:
        subscription = store.subscribe("a")
    step = "CREATE TABLE extra (a {key}); INSERT INTO extra (a) VALUES (7)"
    steps = (*schema.MIGRATIONS, step)
    monkeypatch.setattr(schema.migrate, "__defaults__", (steps,))
    for _ in range(2):
        with open_store(where) as store:
            assert store.database.rows("SELECT a FROM extra") == [(7,)]
            assert [s.id for s in store.subscriptions()] == [subscription]


def test_who_only_reads_does_not_wait_for_a_batch_that_is_being_stored(where):
    with open_store(where) as writer:
        subscription = writer.subscribe("a")
        with writer.database.write():
            writer.database.run("UPDATE counter SET value = value WHERE name = 'number'")
            with open_store(where) as reader:
                assert [one.id for one in reader.subscriptions()] == [subscription]
                assert reader.matches(subscription) == []


@pytest.mark.parametrize("damage", ["foreign", "header", "cut", "other program"])
def test_a_damaged_file_is_refused_by_name_with_the_way_out(tmp_path, damage):
    with open_store(tmp_path) as store:
        store.subscribe_many([(f"query {n}",) for n in range(5_000)])
    path = tmp_path / FILE
    whole = path.read_bytes()
    if damage == "other program":
        path.unlink()
        connection = apsw.Connection(str(path))
        connection.execute("CREATE TABLE theirs (a)")
        connection.close()
    else:
        made = {"foreign": b"not a database " * 9_999, "header": b"\xff" * 100 + whole[100:], "cut": whole[:40_000]}
        path.write_bytes(made[damage])
    with pytest.raises(StoreDamaged, match=rf"{FILE}: .*restore it from a copy, or move it away"):
        open_store(tmp_path)


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match="file"):
        open_store(tmp_path / "file")


def test_a_server_that_is_not_there_is_told_in_one_sentence():
    with pytest.raises(StoreError, match="PostgreSQL cannot be reached"):
        open_store("postgresql://nobody@/nothing?host=/nonexistent")


def ended(server: str, store: Store) -> None:
    """The server ends the connection, as when it is restarted."""
    import psycopg

    (number,) = store.database.rows("SELECT pg_backend_pid()")[0]
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(%s, 5000)", (number,))


def _lose_and_go_on(server: str, store: Store) -> None:
    ended(server, store)
    with pytest.raises(StoreError):
        store.database.rows("SELECT 1")
    store.database.rows("SELECT 1")  # would be outside of the transaction it was meant for


def test_a_lost_connection_is_made_anew_but_for_what_was_lost_with_it(server):
    with open_store(new_schema(server)) as store:
        ended(server, store)
        subscription = store.subscribe("a")
        with pytest.raises(StoreError), store.database.write():
            _lose_and_go_on(server, store)
        assert [one.id for one in store.subscriptions()] == [subscription]
        with store.hold_stream():
            ended(server, store)
            for _ in range(2):  # who has lost the right to run the stream must not go on
                with pytest.raises(StoreError):
                    store.begin("s", 0, 1, 1)
        assert store.ledger() == []
    with pytest.raises(StoreError):
        store.ledger()


def test_a_writer_that_never_ends_is_told_after_a_while(server, monkeypatch):
    monkeypatch.setattr("tidings.store.postgres._LOCK_S", 1)
    where = new_schema(server)
    with (
        open_store(where) as store,
        open_store(where) as other,
        store.database.write(),
        pytest.raises(StoreBusy, match="locked by another process"),
    ):
        other.subscribe("a")


HOLD = """
import sys
from tidings.store import open_store
store = open_store(sys.argv[1])
with store.hold_stream():
    print("held", flush=True)
    sys.stdin.read() if False else __import__("time").sleep(60)
"""


def test_only_one_process_runs_the_stream_and_a_kill_frees_it(where, store):
    other = child(HOLD, where)
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(StoreBusy, match=f"run by process {other.pid} on .* already"), store.hold_stream():
            pass
    finally:
        other.kill()
        other.wait()
    for _ in range(50):  # a server notices a moment later
        try:
            with store.hold_stream():
                return
        except StoreBusy:
            threading.Event().wait(0.1)
    pytest.fail("the lock outlived its process")


COMMIT = """
import sys
from tests.store.batches import run, posts
from tidings.store import open_store
store = open_store(sys.argv[1])
for batch in range(1, 10_000):
    ids = list(range(batch * 500, batch * 500 + 500))
    store.begin("s", batch, 1, 1)
    print(batch, flush=True)
    run(store, batch, ids, [(1, row) for row in range(500)] + [(2, row) for row in range(500)])
"""


def test_a_kill_during_commit_leaves_all_or_nothing(where):
    with open_store(where) as store:
        store.subscribe_many([("a",), ("b",)])
    for attempt in range(4):
        other = child(COMMIT, where)
        assert other.stdout is not None
        for _ in range(attempt + 2):
            other.stdout.readline()
        threading.Event().wait(0.003 * attempt)
        os.kill(other.pid, signal.SIGKILL)
        other.wait()
        with open_store(where) as store:
            done = [line.batch for line in store.ledger(last=10_000) if line.state == "done"]
            expected = [batch * 500 + row for batch in done for row in range(500)]
            assert sorted(ids(store, 1, limit=10**6)) == sorted(ids(store, 2, limit=10**6)) == sorted(expected)
            assert store.sizes().posts == len(expected)


def test_subscribing_while_another_process_commits_loses_nothing(where):
    with open_store(where) as store:
        store.subscribe_many([("a",), ("b",)])
        other = child(COMMIT, where)
        assert other.stdout is not None
        other.stdout.readline()
        given = [store.subscribe(f"query {n}") for n in range(30)]
        other.kill()
        other.wait()
        assert [s.id for s in store.subscriptions()] == [1, 2, *given]
        assert [c.subscription for c in store.changes(2)] == given


def test_threads_share_a_store(store):
    subscription = store.subscribe("a")

    def commit(stream: str) -> None:
        for batch in range(5):
            run(
                store,
                batch,
                [batch * 10 + row for row in range(10)],
                [(subscription, row) for row in range(10)],
                stream=stream,
            )

    threads = [threading.Thread(target=commit, args=(name,)) for name in "xyz"]
    for thread in threads:
        thread.start()
    store.retain()
    for thread in threads:
        thread.join()
    assert sorted(ids(store, subscription)) == list(range(50))


def test_a_failure_inside_a_commit_undoes_it(store):
    subscription = store.subscribe("a")
    store.begin("s", 0, 1, 1)
    with pytest.raises(TypeError):
        store.commit("s", 0, posts([1]), matches([(subscription, 0)]), figures={"bad": object()})
    assert ids(store, subscription) == []
    assert store.sizes().posts == 0
