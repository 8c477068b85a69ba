"""A large batch is spilled and committed in the background; the next run recovers what a killed run spilled."""

from __future__ import annotations

import threading
from dataclasses import asdict

import pyarrow as pa
import pytest

from tidings.errors import InputError, StoreError
from tidings.store import open_store
from tidings.stream import commit_queue
from tidings.stream.commit_queue import BatchStart, BatchStats, CommitQueue, MatchChunks, recover_spilled

FIRST, SECOND = BatchStart("s", 0, 1, 1), BatchStart("s", 1, 2, 1, "shed")
STATS = BatchStats({"matching": 1.5}, {0: 3}, {"ann": 2})


def make_chunks(first: int, count: int = 3) -> MatchChunks:
    """Return posts that match subscription 1."""
    table = pa.table({
        "id": [f"p{number}" for number in range(first, first + count)],
        "text": ["tea"] * count,
        "reason": pa.nulls(count, pa.string()),
        "subscriptions": [[1]] * count,
    })  # fmt: skip
    return MatchChunks(lambda: [table], count)


@pytest.fixture
def state(tmp_path, monkeypatch):
    monkeypatch.setattr(commit_queue, "ASYNC_COMMIT_ROWS", 2)
    with open_store(tmp_path) as store:
        store.subscriptions.add("tea")
        yield store, tmp_path / "spill", lambda: open_store(tmp_path)


def ids(store) -> list[str]:
    return [str(match.post_id) for match in store.matches.since(1)]


def spill_and_kill(state, monkeypatch) -> None:
    """Leave what a run leaves that has spilled batch 0 and begun batch 1 when it is killed."""
    store, spill_dir, reopen = state
    is_killed = threading.Event()
    monkeypatch.setattr(CommitQueue, "_commit_async", lambda *_: is_killed.wait(60))
    queue = CommitQueue(store, spill_dir, reopen)
    queue.begin(FIRST)
    queue.commit(FIRST, STATS, make_chunks(0))
    assert not queue.begin(SECOND).replay
    is_killed.set()
    monkeypatch.undo()


def test_large_batches_are_committed_in_the_background_and_their_files_deleted(state):
    store, spill_dir, reopen = state
    queue = CommitQueue(store, spill_dir, reopen)
    for start, first in ((FIRST, 0), (SECOND, 3)):
        queue.begin(start)
        queue.commit(start, STATS, make_chunks(first))
    queue.wait()
    assert ids(store) == [f"p{number}" for number in range(6)]
    ledger = store.batches.recent()
    assert [(batch.batch, batch.state, batch.index_version, batch.shed) for batch in ledger] == [
        (0, "done", 1, ""),
        (1, "done", 2, "shed"),
    ]
    assert ledger[0].metrics == {"matching": 1.5}
    assert store.shed_totals.read().owners == {"ann": 4}
    assert not list(spill_dir.iterdir())


def test_recovery_commits_spilled_batches_once_and_records_begun_ones(state, monkeypatch):
    store, spill_dir, _ = state
    spill_and_kill(state, monkeypatch)
    assert ids(store) == []
    assert [batch.batch for batch in store.batches.recent()] == [0], "batch 1 is not in the ledger yet"
    for _ in range(2):
        recover_spilled(store, spill_dir)
        assert ids(store) == ["p0", "p1", "p2"]
    assert [(batch.batch, batch.state) for batch in store.batches.recent()] == [(0, "done"), (1, "begun")]
    pin = store.batches.begin(**asdict(BatchStart("s", 1, 9, 9)))
    assert (pin.index_version, pin.shed, pin.replay) == (2, "shed", True), "the replay uses the first versions"
    assert not spill_dir.exists()


def test_recovery_deletes_rows_without_a_marker(state):
    store, spill_dir, _ = state
    (spill_dir / "0000000007").mkdir(parents=True)
    (spill_dir / "0000000007" / "part-0.parquet").write_bytes(b"half of a file")
    recover_spilled(store, spill_dir)
    assert not spill_dir.exists()
    assert store.batches.recent() == []


def test_recovery_reports_damaged_rows_and_commits_nothing(state, monkeypatch):
    store, spill_dir, _ = state
    spill_and_kill(state, monkeypatch)
    file = next(spill_dir.glob("*/*.arrow"))
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(InputError, match=r"0000000000.json: .*damaged\. Remove .*spill and the checkpoint"):
        recover_spilled(store, spill_dir)
    assert [batch.state for batch in store.batches.recent()] == ["begun"]
    assert list(spill_dir.glob("*.json")), "the marker is kept"


def test_an_error_in_the_background_stops_the_next_commit(state):
    store, spill_dir, _ = state

    def fail():
        raise StoreError("no space left")

    queue = CommitQueue(store, spill_dir, fail)
    queue.begin(FIRST)
    queue.commit(FIRST, STATS, make_chunks(0))
    with pytest.raises(StoreError, match="no space left"):
        queue.wait()
    with pytest.raises(StoreError, match="no space left"):
        queue.commit(SECOND, STATS, make_chunks(3, 1))
    recover_spilled(store, spill_dir)
    assert ids(store) == ["p0", "p1", "p2"]
