"""Compile many subscriptions in another process, so that batches do not wait for it.

A thread would hold the interpreter lock for most of the time. The process has the lowest priority and ends with the
one that started it. It writes all files of a version but the manifest, which it prints.

    python -m tidings.stream.bulk_build < request
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import TextIO

import pyarrow as pa

from tidings.errors import TidingsError
from tidings.index.builder import prepare_addition
from tidings.index.manifest import Manifest, from_dict, save_manifest, to_dict
from tidings.index.reader import Index
from tidings.schemas import REGION_TYPE
from tidings.store import Store, Subscription, open_store

_LOWEST_PRIORITY = 19
_ERROR_CHARACTERS = 500


class BulkBuildFailed(TidingsError):
    """The process that compiles many subscriptions failed."""


@dataclass(frozen=True, slots=True)
class FinishedVersion:
    """A version of which only the manifest is missing."""

    folder: Path
    manifest: Manifest

    def publish(self, version: int) -> Index:
        manifest = replace(self.manifest, version=version)
        save_manifest(self.folder, manifest)
        return Index(self.folder, manifest)


class BulkBuild:
    """A process that adds subscriptions to a version of an index."""

    def __init__(self, store: Store, index: Index, ids: Sequence[int]) -> None:
        location = str(store.location)
        self._request = {"folder": str(index.folder), "version": index.version, "store": location, "ids": list(ids)}
        self._folder = index.folder
        self._process: subprocess.Popen[str] | None = None
        self._is_stopped = False

    def run(self) -> FinishedVersion:
        """Start the process and wait for it. Raises BulkBuildFailed."""
        command = [sys.executable, "-m", "tidings.stream.bulk_build"]
        with (
            TemporaryFile("w+", errors="replace") as errors,  # not a pipe, which could fill up while nobody reads it
            subprocess.Popen(
                command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
            ) as process,
        ):
            self._process = process
            if self._is_stopped:
                process.kill()
            output = self._communicate(process)
            if process.wait() != 0:
                errors.seek(0)
                raise BulkBuildFailed(f"Compiling subscriptions failed: {errors.read().strip()[-_ERROR_CHARACTERS:]}")
        return FinishedVersion(self._folder, from_dict(json.loads(output)))

    def _communicate(self, process: subprocess.Popen[str]) -> str:
        """Send the request and keep the input open: its end tells the process that this one died."""
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(self._request) + "\n")
            process.stdin.flush()
        except BrokenPipeError:  # the process ended; its own error says more
            with suppress(BrokenPipeError):
                process.stdin.close()  # raises again for the unsent rest
        return process.stdout.read()

    def stop(self) -> None:
        """Kill the process. Its files belong to no version; the next start deletes them."""
        self._is_stopped = True
        if self._process is not None and self._process.poll() is None:
            self._process.kill()


def to_table(subscriptions: Iterable[Subscription]) -> pa.Table:
    """Return the table that an index is compiled from."""
    rows = [(row.id, row.query, list(row.region) if row.region else None) for row in subscriptions]
    ids, queries, regions = zip(*rows, strict=True) if rows else ((), (), ())
    kinds = {"id": pa.int64(), "query": pa.string(), "region": REGION_TYPE}
    columns = zip(kinds.items(), (ids, queries, regions), strict=True)
    return pa.table({name: pa.array(values, kind) for (name, kind), values in columns})


def _exit_with_parent(requests: TextIO) -> None:
    requests.read()  # ends when the other process closes the pipe or dies
    os._exit(1)


def main() -> None:
    """Read a request, write the files of the version, and print its manifest."""
    request = json.loads(sys.stdin.readline())
    threading.Thread(target=_exit_with_parent, args=(sys.stdin,), daemon=True).start()
    os.nice(_LOWEST_PRIORITY)
    with open_store(request["store"]) as store:
        added = to_table(store.subscriptions.get_many(request["ids"]))
    index = Index.open(Path(request["folder"]), request["version"])
    unpublished = prepare_addition(index, added)
    sys.stdout.write(json.dumps(to_dict(unpublished.writer.finish(unpublished.vocabulary))))
    sys.stdout.flush()
    os._exit(0)  # the thread that reads the input would delay the end


if __name__ == "__main__":
    main()
