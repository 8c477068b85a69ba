"""Errors of a store are one sentence, and leave nothing half-written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import apsw
import pytest
from tests.store.batches import matches, posts, read_ids, run_batch
from tests.store.conftest import new_schema

from tidings.errors import LeaseLost, StoreBusy, StoreDamaged, StoreError, StoreFull, StoreReadOnly
from tidings.store import Store, open_store, schema, sqlite, sqlite_open
from tidings.store.sqlite import FILE, SAFE_VERSION

ROOT = Path(__file__).resolve().parents[2]


def start_python(code: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, text=True, cwd=ROOT)


def test_the_sqlite_version_has_no_wal_reset_bug():
    assert tuple(map(int, apsw.sqlite_lib_version().split("."))) >= SAFE_VERSION


def test_a_full_disk_raises_an_error_and_rolls_back(tmp_path):
    with open_store(tmp_path) as store:
        subscription = store.subscriptions.add("a")
        run_batch(store, 0, [1], [(subscription, 0)])
        pages = store.database.fetch("PRAGMA page_count")[0][0]
        store.database.fetch(f"PRAGMA max_page_count = {pages + 4}")
        many = posts(list(range(2, 3_000)), text=["x" * 500] * 2_998)
        with pytest.raises(StoreFull, match="the disk is full"):
            run_batch(store, 1, many, [(subscription, row) for row in range(2_998)])
        assert read_ids(store, subscription) == [1]
        assert [line.state for line in store.batches.recent()] == ["done", "begun"]
        store.database.fetch("PRAGMA max_page_count = 1000000")
        assert run_batch(store, 1, many, [(subscription, row) for row in range(2_998)]).matches == 2_998


def test_a_store_of_a_newer_version_is_rejected(location):
    with open_store(location) as store:
        store.database.execute("UPDATE store_version SET version = 99")
    with pytest.raises(StoreDamaged, match=r"has version 99; .* Use a newer Tidings"):
        open_store(location)


def test_an_older_store_is_migrated(location, monkeypatch):
    with open_store(location) as store:
        subscription = store.subscriptions.add("a")
    migration = "CREATE TABLE extra (a {key}); INSERT INTO extra (a) VALUES (7)"
    monkeypatch.setattr(schema.migrate, "__defaults__", ((*schema.MIGRATIONS, migration),))
    for _ in range(2):
        with open_store(location) as store:
            assert store.database.fetch("SELECT a FROM extra") == [(7,)]
            assert [s.id for s in store.subscriptions.all()] == [subscription]


def test_readers_do_not_wait_for_a_running_commit(location):
    with open_store(location) as writer:
        subscription = writer.subscriptions.add("a")
        with writer.database.transaction():
            writer.database.execute("UPDATE counter SET value = value WHERE name = 'number'")
            with open_store(location) as reader:
                assert [one.id for one in reader.subscriptions.all()] == [subscription]
                assert reader.matches.since(subscription) == []


@pytest.mark.parametrize("damage", ["foreign", "header", "truncated", "other program"])
def test_a_damaged_file_is_named_with_a_remedy(tmp_path, damage):
    with open_store(tmp_path) as store:
        store.subscriptions.add_many([(f"query {n}",) for n in range(5_000)])
    path = tmp_path / FILE
    content = path.read_bytes()
    if damage == "other program":
        path.unlink()
        connection = apsw.Connection(str(path))
        connection.execute("CREATE TABLE theirs (a)")
        connection.close()
    else:
        damaged = {
            "foreign": b"not a database " * 9_999,
            "header": b"\xff" * 100 + content[100:],
            "truncated": content[:40_000],
        }
        path.write_bytes(damaged[damage])
    with pytest.raises(StoreDamaged, match=rf"{FILE}: .*Restore it from a backup, or move it away"):
        open_store(tmp_path)


def test_a_location_that_is_not_a_directory_is_named(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match="file"):
        open_store(tmp_path / "file")


def test_an_unreachable_server_raises_one_sentence():
    with pytest.raises(StoreError, match="PostgreSQL: cannot connect"):
        open_store("postgresql://nobody@/nothing?host=/nonexistent")


def terminate_connection(server: str, store: Store) -> None:
    """Let the server end the connection, as in a restart."""
    import psycopg

    (number,) = store.database.fetch("SELECT pg_backend_pid()")[0]
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(%s, 5000)", (number,))


def _lose_connection_in_transaction(server: str, store: Store) -> None:
    terminate_connection(server, store)
    with pytest.raises(StoreError):
        store.database.fetch("SELECT 1")
    store.database.fetch("SELECT 1")  # must not run outside the lost transaction


def test_a_store_does_not_reconnect_in_a_transaction_or_with_a_lease(server):
    with open_store(new_schema(server)) as store:
        terminate_connection(server, store)
        subscription = store.subscriptions.add("a")
        with pytest.raises(StoreError), store.database.transaction():
            _lose_connection_in_transaction(server, store)
        assert [one.id for one in store.subscriptions.all()] == [subscription]
        with store.lease("stream"):
            terminate_connection(server, store)
            for _ in range(2):  # without its lease the stream must not continue
                with pytest.raises(StoreError):
                    store.batches.begin("s", 0, 1, 1)
        assert store.batches.recent() == []
    with pytest.raises(StoreError):
        store.batches.recent()


def test_waiting_for_another_writer_has_a_timeout(server, monkeypatch):
    monkeypatch.setattr("tidings.store.postgres._LOCK_S", 1)
    location = new_schema(server)
    with (
        open_store(location) as store,
        open_store(location) as other,
        store.database.transaction(),
        pytest.raises(StoreBusy, match="locked by another process"),
    ):
        other.subscriptions.add("a")


HOLD_LEASE = """
import sys, time
from tidings.store import open_store
store = open_store(sys.argv[1])
with store.lease("stream"):
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_lease_is_exclusive_and_ends_with_its_process(location, store):
    other = start_python(HOLD_LEASE, location)
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(StoreBusy, match=f"running already: process {other.pid} on "), store.lease("stream"):
            pass
    finally:
        other.kill()
        other.wait()
    for _ in range(300):  # PostgreSQL notices the lost connection a moment later
        try:
            with store.lease("stream"):
                return
        except StoreBusy:
            threading.Event().wait(0.1)
    pytest.fail("the lease outlived its process by 30 s")


COMMIT_BATCHES = """
import sys
from tests.store.batches import posts, run_batch
from tidings.store import open_store
store = open_store(sys.argv[1])
for batch in range(1, 10_000):
    ids = list(range(batch * 500, batch * 500 + 500))
    store.batches.begin("s", batch, 1, 1)
    print(batch, flush=True)
    run_batch(store, batch, ids, [(1, row) for row in range(500)] + [(2, row) for row in range(500)])
"""


def test_a_kill_during_a_commit_leaves_whole_batches(location):
    with open_store(location) as store:
        store.subscriptions.add_many([("a",), ("b",)])
    for attempt in range(4):
        other = start_python(COMMIT_BATCHES, location)
        assert other.stdout is not None
        for _ in range(attempt + 2):
            other.stdout.readline()
        threading.Event().wait(0.003 * attempt)
        os.kill(other.pid, signal.SIGKILL)
        other.wait()
        with open_store(location) as store:
            done = [line.batch for line in store.batches.recent(limit=10_000) if line.state == "done"]
            expected = [batch * 500 + row for batch in done for row in range(500)]
            assert (
                sorted(read_ids(store, 1, limit=10**6)) == sorted(read_ids(store, 2, limit=10**6)) == sorted(expected)
            )
            assert store.sizes().posts == len(expected)


def test_subscribing_during_commits_of_another_process_loses_nothing(location):
    with open_store(location) as store:
        store.subscriptions.add_many([("a",), ("b",)])
        other = start_python(COMMIT_BATCHES, location)
        assert other.stdout is not None
        other.stdout.readline()
        added = [store.subscriptions.add(f"query {n}") for n in range(30)]
        other.kill()
        other.wait()
        assert [s.id for s in store.subscriptions.all()] == [1, 2, *added]
        assert [c.subscription for c in store.subscriptions.change_log(2)] == added


def test_threads_share_a_store(store):
    subscription = store.subscriptions.add("a")

    def commit(stream: str) -> None:
        for batch in range(5):
            run_batch(
                store,
                batch,
                [batch * 10 + row for row in range(10)],
                [(subscription, row) for row in range(10)],
                stream=stream,
            )

    threads = [threading.Thread(target=commit, args=(name,)) for name in "xyz"]
    for thread in threads:
        thread.start()
    store.apply_retention()
    for thread in threads:
        thread.join()
    assert sorted(read_ids(store, subscription)) == list(range(50))


def test_an_error_during_a_commit_rolls_it_back(store):
    subscription = store.subscriptions.add("a")
    store.batches.begin("s", 0, 1, 1)
    with pytest.raises(TypeError):
        store.batches.commit("s", 0, posts([1]), matches([(subscription, 0)]), metrics={"bad": object()})
    assert read_ids(store, subscription) == []
    assert store.sizes().posts == 0


@pytest.mark.parametrize("other", ["store-created", "inbox/1.jsonl", "checkpoint/metadata", "stream.lock"])
def test_a_file_that_was_emptied_is_not_a_new_store(tmp_path, other):
    (tmp_path / other).parent.mkdir(exist_ok=True)
    (tmp_path / other).touch()
    (tmp_path / FILE).touch()
    with pytest.raises(StoreDamaged, match=r"the file is empty, but there is other state .* Restore it from a backup"):
        open_store(tmp_path)
    assert (tmp_path / FILE).stat().st_size == 0


def test_a_store_that_another_process_creates_during_the_check_is_opened(tmp_path, monkeypatch):
    def look_when_it_is_created(file, look=sqlite_open._is_state):
        monkeypatch.undo()
        open_store(tmp_path).close()
        return look(file)

    (tmp_path / FILE).touch()  # the other process has only created the file
    monkeypatch.setattr(sqlite_open, "_is_state", look_when_it_is_created)
    with open_store(tmp_path) as store:
        assert store.subscriptions.add("storm") == 1


def test_a_store_leaves_a_mark_that_a_file_that_was_emptied_is_recognized_by(tmp_path):
    with open_store(tmp_path) as store:
        store.subscriptions.add("storm")
    (tmp_path / FILE).write_bytes(b"")
    with pytest.raises(StoreDamaged, match="the file is empty"):
        open_store(tmp_path)


def test_an_empty_file_without_other_state_is_a_new_store(tmp_path):
    (tmp_path / FILE).touch()
    (tmp_path / "inbox").mkdir()
    with open_store(tmp_path) as store:
        assert store.subscriptions.add("storm") == 1


def test_a_reader_of_a_snapshot_sees_what_a_later_writer_stores(tmp_path, monkeypatch):
    with open_store(tmp_path) as store:
        store.subscriptions.add("storm")

    def refuse(path: Path) -> apsw.Connection:
        raise apsw.CantOpenError

    with monkeypatch.context() as patch:
        patch.setattr(sqlite, "open_writable", refuse)
        reader = open_store(tmp_path)
    with reader, open_store(tmp_path) as writer:
        writer.subscriptions.add("flood")
        assert [one.query for one in reader.subscriptions.all()] == ["storm", "flood"]
        with pytest.raises(StoreReadOnly, match="read-only"):
            reader.subscriptions.add("rain")


def test_a_lease_is_lost_when_its_file_is_deleted(tmp_path):
    with open_store(tmp_path) as store, store.lease("stream") as lease:
        lease.check()
        (tmp_path / "stream.lock").unlink()
        with pytest.raises(LeaseLost, match=r"stream\.lock was deleted"):
            lease.check()


_USE_FULL_DISK = """
import resource, sys
from tidings.errors import StoreFull
from tidings.store import open_store

def try_to(write):
    try:
        write()
    except StoreFull as error:
        print(error)

resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))  # for this process, the disk is full
with open_store(sys.argv[1]) as store:
    print(*(row.query for row in store.subscriptions.all()))
    try_to(lambda: store.subscriptions.add("rain"))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    try_to(lambda: store.lease("stream").__enter__())
"""


def test_a_store_on_a_full_disk_can_be_read(tmp_path):
    with open_store(tmp_path) as store:
        store.subscriptions.add("storm")
    for _ in range(2):  # the first attempt leaves files
        done = subprocess.run(
            [sys.executable, "-c", _USE_FULL_DISK, str(tmp_path)], capture_output=True, text=True, check=False
        )
        full = "the disk is full. Free some space and run again."
        assert done.stdout.splitlines() == ["storm", f"{tmp_path / FILE}: {full}", f"{tmp_path}: {full}"], done.stderr
    with open_store(tmp_path) as store:
        assert store.subscriptions.add("rain") == 2
