"""Storing what batches found: a little of it at once, much of it while the next batch is matched.

Much is first kept in files. From then on it is safe whatever happens, so Spark may go on; a run that finds such files
stores them before it begins anything. Batches are stored one after the other, in their order, each in one transaction.
"""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pyarrow as pa

from tidings.atomic_io import write_durably
from tidings.errors import InputError
from tidings.failpoints import failpoint
from tidings.store import Found, Pin, ShedCounts, Store
from tidings.stream.spill import Parts, keep, kept

MUCH = 20_000  # rows: fewer are stored sooner than files of them are written


@dataclass(frozen=True, slots=True)
class Begun:
    """A batch with the versions it uses and what it sheds."""

    stream: str
    batch: int
    index_version: int
    plan_version: int
    shed: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """What goes into the ledger beside what a batch found."""

    figures: Mapping[str, object] = field(default_factory=dict)
    matchers: Mapping[int, int] = field(default_factory=dict)
    owners: Mapping[str, int] = field(default_factory=dict)

    def counts(self) -> ShedCounts:
        return ShedCounts({int(matcher): count for matcher, count in self.matchers.items()}, dict(self.owners))


class Storing:
    """The way into one store. `again` opens it once more, for the thread that stores behind the stream.

    SQLite lets one write at a time. While a batch is stored behind the next, that one's beginning is noted in a file
    instead of the ledger, where it is entered when its own turn comes.
    """

    def __init__(self, store: Store, folder: Path | None = None, again: Callable[[], Store] | None = None) -> None:
        self._store, self._folder, self._again = store, folder, again
        self._thread: threading.Thread | None = None
        self._noted: int | None = None  # the batch whose beginning is in a file only
        self.failure: Exception | None = None

    def begin(self, begun: Begun) -> Pin:
        """As the store does: the versions of a batch, now or when it was begun first."""
        if self._folder is None or self._thread is None or not self._thread.is_alive():
            return self._store.begin(**asdict(begun))
        _note(self._folder, begun, None)
        self._noted = begun.batch
        return Pin(begun.index_version, begun.plan_version, done=False, replay=False, shed=begun.shed)

    def store(self, begun: Begun, result: Result, parts: Iterable[Found]) -> None:
        """Store it now, or have it stored: then it is safe when this returns. Waits for the batch before."""
        self.wait()
        if self._folder is None or self._again is None or not isinstance(parts, Parts) or parts.rows <= MUCH:
            self._commit(self._store, begun, result, parts)
            return
        keep(parts, _files(self._folder, begun.batch))
        _note(self._folder, begun, result)
        failpoint("after keeping", begun.batch)
        self._thread = threading.Thread(target=self._behind, args=(begun, result, parts), daemon=True)
        self._thread.start()

    def files(self, batch: int) -> Path | None:
        """Where what a batch finds may lie that is too much to be held in memory."""
        return None if self._folder is None else _files(self._folder, batch)

    def wait(self, seconds: float | None = None) -> None:
        """Until nothing waits to be stored; raises what went wrong with it."""
        if self._thread is not None:
            self._thread.join(seconds)
        if self.failure is not None:
            raise self.failure

    def _behind(self, begun: Begun, result: Result, parts: Parts) -> None:
        assert self._again is not None
        try:
            with self._again() as store:
                self._commit(store, begun, result, parts)
        except Exception as error:
            self.failure = error

    def _commit(self, store: Store, begun: Begun, result: Result, parts: Iterable[Found]) -> None:
        if self._noted == begun.batch:
            store.begin(**asdict(begun))
        _commit(store, begun, result, parts)
        if self._folder is not None:
            _forget(self._folder, begun.batch)


def store_left(store: Store, folder: Path) -> None:
    """Store what a run has kept and not stored, and enter the batches it has begun."""
    for note in sorted(folder.glob("*.json")):
        try:
            _store_left(store, note)
        except (OSError, ValueError, TypeError, KeyError, pa.ArrowException) as error:
            raise InputError(
                f"{note}: what this batch found is damaged; remove {folder} and the checkpoint beside it and run "
                "again: everything is read anew, and no match is stored twice."
            ) from error
    shutil.rmtree(folder, ignore_errors=True)  # what was found by a batch that was not finished


def _store_left(store: Store, note: Path) -> None:
    told = json.loads(note.read_text("utf-8"))
    begun = Begun(**told["begun"])
    store.begin(**asdict(begun))
    if told["result"] is not None:
        _commit(store, begun, Result(**told["result"]), kept(_files(note.parent, begun.batch)))
    _forget(note.parent, begun.batch)


def _commit(store: Store, begun: Begun, result: Result, parts: Iterable[Found]) -> None:
    def before_commit() -> None:
        failpoint("after writing", begun.batch)
        failpoint("before committing", begun.batch)

    failpoint("before writing", begun.batch)
    store.commit_parts(begun.stream, begun.batch, parts, result.figures, before_commit, result.counts())
    failpoint("after committing", begun.batch)


def _files(folder: Path, batch: int) -> Path:
    return folder / f"{batch:010d}"


def _note(folder: Path, begun: Begun, result: Result | None) -> None:
    """`result` is there when all that was found is kept."""
    folder.mkdir(parents=True, exist_ok=True)
    told = {"begun": asdict(begun), "result": None if result is None else asdict(result)}
    write_durably(_files(folder, begun.batch).with_suffix(".json"), [json.dumps(told)])


def _forget(folder: Path, batch: int) -> None:
    """The note first: files without one are nothing."""
    files = _files(folder, batch)
    files.with_suffix(".json").unlink(missing_ok=True)
    shutil.rmtree(files, ignore_errors=True)
