"""Much is kept in files and stored behind the stream; a run that was killed is made good by the next."""

from __future__ import annotations

import threading
from dataclasses import asdict

import pyarrow as pa
import pytest

from tidings.errors import InputError, StoreError
from tidings.store import open_store
from tidings.stream import commit_queue as way
from tidings.stream.commit_queue import Begun, Result, Storing, store_left
from tidings.stream.spill import Parts

FIRST, SECOND = Begun("s", 0, 1, 1), Begun("s", 1, 2, 1, "shed")
RESULT = Result({"matching": 1.5}, {0: 3}, {"ann": 2})


def parts(first: int, count: int = 3) -> Parts:
    """So many posts, each wanted by subscription 1."""
    table = pa.table({
        "id": [f"p{number}" for number in range(first, first + count)],
        "text": ["tea"] * count,
        "reason": pa.nulls(count, pa.string()),
        "subscriptions": [[1]] * count,
    })  # fmt: skip
    return Parts(lambda: [table], count)


@pytest.fixture
def state(tmp_path, monkeypatch):
    monkeypatch.setattr(way, "MUCH", 2)
    with open_store(tmp_path) as store:
        store.subscribe("tea")
        yield store, tmp_path / "found", lambda: open_store(tmp_path)


def ids(store) -> list[str]:
    return [str(one.post_id) for one in store.matches(1)]


def kept_and_killed(state, monkeypatch) -> None:
    """A run that has kept its first batch, has begun the second, and was killed."""
    store, folder, again = state
    alive = threading.Event()
    monkeypatch.setattr(Storing, "_behind", lambda *_: alive.wait(60))
    storing = Storing(store, folder, again)
    storing.begin(FIRST)
    storing.store(FIRST, RESULT, parts(0))
    assert not storing.begin(SECOND).replay
    alive.set()
    monkeypatch.undo()


def test_much_is_stored_behind_and_its_files_go(state):
    store, folder, again = state
    storing = Storing(store, folder, again)
    for begun, first in ((FIRST, 0), (SECOND, 3)):
        storing.begin(begun)
        storing.store(begun, RESULT, parts(first))
    storing.wait()
    assert ids(store) == [f"p{number}" for number in range(6)]
    ledger = store.ledger()
    assert [(one.batch, one.state, one.index_version, one.shed) for one in ledger] == [
        (0, "done", 1, ""),
        (1, "done", 2, "shed"),
    ]
    assert ledger[0].figures == {"matching": 1.5}
    assert store.withheld().owners == {"ann": 4}
    assert not list(folder.iterdir())


def test_what_a_killed_run_has_kept_and_begun_is_made_good_once(state, monkeypatch):
    store, folder, _ = state
    kept_and_killed(state, monkeypatch)
    assert ids(store) == []
    assert [one.batch for one in store.ledger()] == [0], "the ledger does not know of the second yet"
    for _ in range(2):
        store_left(store, folder)
        assert ids(store) == ["p0", "p1", "p2"]
    assert [(one.batch, one.state) for one in store.ledger()] == [(0, "done"), (1, "begun")]
    pin = store.begin(**asdict(Begun("s", 1, 9, 9)))
    assert (pin.index_version, pin.shed, pin.replay) == (2, "shed", True), "the replay uses what it was begun with"
    assert not folder.exists()


def test_files_without_a_note_are_what_an_unfinished_batch_found_and_go(state):
    store, folder, _ = state
    (folder / "0000000007").mkdir(parents=True)
    (folder / "0000000007" / "part-0.parquet").write_bytes(b"half of a file")
    store_left(store, folder)
    assert not folder.exists()
    assert store.ledger() == []


def test_a_note_whose_files_are_damaged_is_named_and_nothing_is_taken_for_stored(state, monkeypatch):
    store, folder, _ = state
    kept_and_killed(state, monkeypatch)
    file = next(folder.glob("*/*.arrow"))
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(InputError, match=r"0000000000.json: .*damaged; remove .*found and the checkpoint"):
        store_left(store, folder)
    assert [one.state for one in store.ledger()] == ["begun"]
    assert list(folder.glob("*.json")), "it is still there to be mended"


def test_what_goes_wrong_behind_is_told_and_the_next_batch_is_not_stored(state):
    store, folder, _ = state

    def no_store():
        raise StoreError("no room left")

    storing = Storing(store, folder, no_store)
    storing.begin(FIRST)
    storing.store(FIRST, RESULT, parts(0))
    with pytest.raises(StoreError, match="no room left"):
        storing.wait()
    with pytest.raises(StoreError, match="no room left"):
        storing.store(SECOND, RESULT, parts(3, 1))
    store_left(store, folder)
    assert ids(store) == ["p0", "p1", "p2"]
