"""Free memory is returned to the system, also by workers that open one index version after another."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from tests.spark.fixtures import run_python

from tidings.index.builder import apply_changes, rebuild_index
from tidings.spark.worker_state import IndexRef, open_index

BLOCKS, BLOCK_BYTES = 4_000, 20_000


def private_bytes() -> int:
    rollup = Path("/proc/self/smaps_rollup").read_text()
    return 1024 * sum(int(size) for size in re.findall(r"^Private_Dirty: +(\d+)", rollup, re.MULTILINE))


def fragment_heap() -> list[bytes]:
    """Free every block but one in ten, so that the free ones are not at the end of the heap."""
    blocks = [bytes([number % 255 + 1]) * BLOCK_BYTES for number in range(BLOCKS)]
    return blocks[::10]


def check_release() -> None:
    from tidings.heap import release_free_memory

    kept = fragment_heap()
    before = private_bytes()
    release_free_memory()
    released = before - private_bytes()
    assert released > BLOCKS * BLOCK_BYTES // 2, (before, released, len(kept))


@pytest.mark.skipif(sys.platform != "linux", reason="the memory of a process is read from /proc")
def test_free_memory_in_a_fragmented_heap_is_returned():
    run_python("from tests.test_heap import check_release; check_release()")


def test_worker_releases_memory_after_the_first_task_of_a_version(tmp_path, monkeypatch):
    rows = pa.table({"id": [1], "query": ["storm"], "region": pa.nulls(1, pa.list_(pa.float64(), 4))})
    index, _ = rebuild_index(tmp_path, 1, rows, None, 0, None)
    index, _ = apply_changes(index, None, pa.array([1], pa.int64()), 1)
    calls = []
    monkeypatch.setattr("tidings.spark.worker_state.release_free_memory", lambda: calls.append(1))
    for version in (1, 1, index.version):
        open_index(IndexRef(str(tmp_path), version)).end_task()
    assert len(calls) == 2
