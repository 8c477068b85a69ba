"""The work directory of a stream: its lease, and the migration of directories that version 0.1 wrote."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tidings.atomic_io import write_durably
from tidings.store.database import Lease
from tidings.store.lease import acquire

SPILL = "spill"
_LOCK = "work.lock"  # not stream.lock: a SQLite store in the same directory has that lease
_KEYS_0_1 = {
    "found/*.json": {
        "begun": "start",
        "result": "stats",
        "figures": "metrics",
        "matchers": "shed_by_matcher",
        "owners": "shed_by_owner",
    },
    "adjust.json": {"looked_at": "evaluated_at"},
    "correlations/figures.json": {"most_partitions": "max_partitions"},
}
_FILES_0_1 = {
    "found": SPILL,
    "followed.json": "provenance.json",
    "figures.json": "metrics.json",
    "adjust.json": "rebalance.json",
    "correlations/figures.json": "correlations/metrics.json",
}


@contextmanager
def state_dir_lease(folder: Path) -> Iterator[Lease]:
    """Hold the lease of a work directory and migrate its files. Raises StoreBusy if another stream holds it.

    Streams of different stores must not share a work directory either, so it has a lease of its own.
    """
    with acquire(folder / _LOCK, "stream", folder) as lease:
        migrate_state_dir(folder)
        yield lease


def migrate_state_dir(folder: Path) -> None:
    """Rename the files and JSON keys of version 0.1. A migration that was interrupted is completed by the next one."""
    for pattern, keys in _KEYS_0_1.items():
        for file in folder.glob(pattern):
            _rename_keys(file, keys)
    for old, new in _FILES_0_1.items():
        _rename(folder / old, folder / new)


def _rename(old: Path, new: Path) -> None:
    if old.exists() and not new.exists():
        os.replace(old, new)


def _rename_keys(file: Path, keys: Mapping[str, str]) -> None:
    """Rename keys on the two upper levels: below are names of owners."""

    def rename(value: Any) -> Any:
        return {keys.get(key, key): item for key, item in value.items()} if isinstance(value, dict) else value

    try:
        content = rename(json.loads(file.read_text("utf-8")))
    except ValueError:  # damaged: its reader reports that
        return
    if isinstance(content, dict):
        # Durably: Spark may have finished a batch whose results only the spill has.
        write_durably(file, [json.dumps({key: rename(value) for key, value in content.items()})])
