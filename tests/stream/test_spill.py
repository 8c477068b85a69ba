"""Results of a large batch pass through files in chunks and equal those of a small batch in memory."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import functions as F
from tests.stream.process import QUERIES, PostFeed, expected_matches, stored_matches, subscribe

from tidings.errors import InputError
from tidings.spark import spill as spill_files
from tidings.spark.post_columns import select_all_fields
from tidings.store import open_store
from tidings.stream import commit_queue, micro_batch
from tidings.stream.commit_queue import CommitQueue, collect_matches, read_spill, spill
from tidings.stream.index_updater import IndexUpdater
from tidings.stream.live_index import LiveIndex
from tidings.stream.micro_batch import MicroBatchRunner
from tidings.stream.plan_refresh import PlanRefresher
from tidings.stream.sinks import StoreSink

COLUMNS = "id decimal(38,0), text string, time timestamp, tags array<string>, reason string, subscriptions array<long>"
ROWS = [
    (Decimal(10**37), "one", datetime(2500, 1, 1, tzinfo=UTC), ["a", "b"], None, [1, 2]),
    (Decimal(2), "two", None, None, "no good", []),
    (Decimal(3), "Grüße", datetime(1800, 1, 1, tzinfo=UTC), [], None, [7]),
]


@pytest.fixture
def rows(spark, monkeypatch):
    monkeypatch.setattr(spill_files, "_PARQUET_BATCH_ROWS", 2)
    monkeypatch.setattr(spill_files, "_CHUNK_ROWS", 2)
    monkeypatch.setattr(commit_queue, "_SPILL_BATCH_ROWS", 2)
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    rows = spark.createDataFrame(ROWS * 5, COLUMNS).coalesce(1)
    yield rows.withColumn(spill_files.SPILLED_ROWS, F.lit(None).cast("bigint"))
    spark.conf.unset("spark.sql.parquet.outputTimestampType")


def to_lists(chunks) -> tuple[list[dict], list[tuple], list[dict]]:
    """Return posts, matches and rejected rows of all chunks, with posts numbered through."""
    posts, matches, rejected = [], [], []
    for chunk in chunks:
        pairs = zip(chunk.matches["subscription"].to_pylist(), chunk.matches["post_row"].to_pylist(), strict=True)
        matches += [(subscription, len(posts) + row) for subscription, row in pairs]
        posts += chunk.posts.to_pylist()
        rejected += chunk.rejected.to_pylist()
    return posts, matches, rejected


def test_chunks_from_files_equal_those_from_memory(rows, tmp_path):
    folder = tmp_path / "spill"
    (folder / "of a killed run").mkdir(parents=True)
    in_memory, in_files = collect_matches(rows, None), collect_matches(rows, folder)
    assert len(list(in_files)) > 5
    assert to_lists(in_files) == to_lists(in_memory) == to_lists(in_files)
    assert len(to_lists(in_files)[0]) == 10
    assert in_files.rows == in_memory.rows == 15


def test_spilled_chunks_are_read_unchanged(rows, tmp_path):
    in_memory, in_files = collect_matches(rows, None), collect_matches(rows, tmp_path / "files")
    spill(in_memory, tmp_path / "memory")
    spill(in_files, tmp_path / "files")
    assert to_lists(read_spill(tmp_path / "memory")) == to_lists(read_spill(tmp_path / "files")) == to_lists(in_memory)


def test_rows_that_the_driver_does_not_see_are_an_error(rows, tmp_path, monkeypatch):
    monkeypatch.setattr(commit_queue, "list_spill_files", lambda folder: [])
    with pytest.raises(InputError, match="executors wrote 15 rows, but the driver sees 0"):
        collect_matches(rows, tmp_path)


def write_checkpoint(folder: Path, files: list[Path]) -> Path:
    """Write what Spark has written when batch 0 with these files begins."""
    (folder / "offsets").mkdir(parents=True)
    (folder / "sources" / "0").mkdir(parents=True)
    (folder / "metadata").write_text('{"id":"s"}')
    (folder / "offsets" / "0").write_text('v1\n{}\n{"logOffset":0}')
    entries = (json.dumps({"path": file.as_uri(), "timestamp": 1, "batchId": 0}) for file in files)
    (folder / "sources" / "0" / "0").write_text("\n".join(["v1", *entries]))
    return folder


SMALL, SPILLED, SPILLED_BY_SPARK = (1 << 40, 1 << 40), (0, 1 << 40), (0, 0)


@pytest.mark.parametrize("limits", [SMALL, SPILLED, SPILLED_BY_SPARK], ids=["small", "spilled", "spilled by Spark"])
def test_a_batch_of_any_size_is_committed_alike(spark, tmp_path, monkeypatch, limits):
    monkeypatch.setattr(micro_batch, "SPILL_BYTES", limits[0])
    monkeypatch.setattr(micro_batch, "SPARK_SPILL_BYTES", limits[1])
    monkeypatch.setattr(spill_files, "_CHUNK_ROWS", 3)
    monkeypatch.setattr(spill_files, "_PARQUET_BATCH_ROWS", 3)
    spilled: list[Path] = []
    feed, state = PostFeed(tmp_path / "in", posts_per_file=200), tmp_path / "state"
    feed.add_files()
    (feed.folder / "bad.jsonl").write_text('{"id": 1000000, "lat": 99, "lon": 0, "text": "nowhere"}\n')
    subscribe(state, *QUERIES)

    class RecordingSink(StoreSink):
        def write(self, stream, batch, index_version, chunks):
            spilled.extend(path for path in state.glob("spill/**/*") if path.is_file())
            return chunks

    with open_store(state) as store:
        updater = IndexUpdater(store, state / "index")
        runner = MicroBatchRunner(
            write_checkpoint(tmp_path / "checkpoint", sorted(feed.folder.iterdir())),
            LiveIndex(updater, PlanRefresher(updater, store)),
            CommitQueue(store, state / "spill"),
            RecordingSink(),
        )
        posts = spark.read.schema("id bigint, text string, lat double, lon double").json(str(feed.folder))
        runner(select_all_fields(posts), 0)
        assert [row.reason for row in store.batches.rejected_rows()] == ["lat is not between -90 and 90"]
    assert stored_matches(state) == expected_matches(feed.rows, QUERIES)
    assert {path.suffix for path in spilled if not path.name.startswith((".", "_"))} == {
        SMALL: set(),
        SPILLED: {".arrow"},
        SPILLED_BY_SPARK: {".arrow", ".parquet"},
    }[limits]
