"""What a large batch found comes in parts, through files, and is what it would be in one piece."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F
from tests.stream.process import QUERIES, Feed, stored, subscribe, wanted

from tidings.errors import InputError
from tidings.spark import spill_file
from tidings.spark.post_columns import whole
from tidings.store import Found, open_store
from tidings.stream import micro_batch, sinks, spill
from tidings.stream.commit_queue import Storing
from tidings.stream.index_updater import Follower
from tidings.stream.micro_batch import Batches
from tidings.stream.plan_refresh import Relearner
from tidings.stream.sinks import ToParquet, ToStore
from tidings.stream.spill import gathered, held_bytes, keep, kept

COLUMNS = "id decimal(38,0), text string, time timestamp, tags array<string>, reason string, subscriptions array<long>"
ROWS = [
    (Decimal(10**37), "one", datetime(2500, 1, 1, tzinfo=UTC), ["a", "b"], None, [1, 2]),
    (Decimal(2), "two", None, None, "no good", []),
    (Decimal(3), "Grüße", datetime(1800, 1, 1, tzinfo=UTC), [], None, [7]),
]


@pytest.fixture
def rows(spark, monkeypatch):
    monkeypatch.setattr(spill_file, "_ROWS_AT_ONCE", 2)
    monkeypatch.setattr(spill_file, "_PART_ROWS", 2)
    monkeypatch.setattr(spill, "_ROWS_A_BATCH", 2)
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    rows = spark.createDataFrame(ROWS * 5, COLUMNS).coalesce(1)
    yield rows.withColumn("written", F.lit(None).cast("bigint"))
    spark.conf.unset("spark.sql.parquet.outputTimestampType")


def told(parts) -> tuple[list[dict], list[tuple], list[dict]]:
    """Everything in them, posts numbered through."""
    posts, matches, rejected = [], [], []
    for part in parts:
        pairs = zip(part.matches["subscription"].to_pylist(), part.matches["post_row"].to_pylist(), strict=True)
        matches += [(subscription, len(posts) + row) for subscription, row in pairs]
        posts += part.posts.to_pylist()
        rejected += part.rejected.to_pylist()
    return posts, matches, rejected


def test_through_files_comes_what_comes_through_memory(rows, tmp_path):
    folder = tmp_path / "found"
    (folder / "left by a run that was killed").mkdir(parents=True)
    whole, parts = gathered(rows, None), gathered(rows, folder)
    assert len(list(parts)) > 5
    assert told(parts) == told(whole) == told(parts)
    assert len(told(parts)[0]) == 10
    assert parts.rows == whole.rows == 15


def test_what_is_kept_is_what_was_found(rows, tmp_path):
    in_memory, in_files = gathered(rows, None), gathered(rows, tmp_path / "files")
    keep(in_memory, tmp_path / "kept")
    keep(in_files, tmp_path / "files")
    assert told(kept(tmp_path / "kept")) == told(kept(tmp_path / "files")) == told(in_memory)


def test_rows_that_were_written_and_cannot_be_seen_are_an_error(rows, tmp_path, monkeypatch):
    monkeypatch.setattr(spill, "kept_files", lambda folder: [])
    with pytest.raises(InputError, match="wrote 15 rows there, of which 0 are to be seen"):
        gathered(rows, tmp_path)


def test_files_hold_what_they_hold_once_unpacked(tmp_path):
    plain, packed, parquet = tmp_path / "a.jsonl", tmp_path / "b.jsonl.gz", tmp_path / "c.parquet"
    plain.write_bytes(b"x" * 600)
    packed.write_bytes(b"x" * 200)
    pq.write_table(pa.table({"text": ["storm" * 1_000] * 100}), parquet, use_dictionary=False)
    assert held_bytes([]) == 0
    assert held_bytes([plain, plain]) == 1_200
    assert held_bytes([packed]) == 1_600
    assert held_bytes([parquet]) > 500_000 > 10 * parquet.stat().st_size


SMALL, MUCH, LARGE = (1 << 40, 1 << 40), (0, 1 << 40), (0, 0)


@pytest.mark.parametrize("limits", [SMALL, MUCH, LARGE], ids=["small", "much", "large"])
def test_a_large_batch_is_stored_as_a_small_one_is(spark, tmp_path, monkeypatch, limits):
    monkeypatch.setattr(micro_batch, "MUCH_BYTES", limits[0])
    monkeypatch.setattr(micro_batch, "LARGE_BYTES", limits[1])
    seen: list[Path] = []
    monkeypatch.setattr(spill_file, "_PART_ROWS", 3)
    monkeypatch.setattr(spill_file, "_ROWS_AT_ONCE", 3)
    feed, state = Feed(tmp_path / "in", posts_a_file=200), tmp_path / "state"
    feed.put()
    with (feed.folder / "bad.jsonl").open("w") as lines:
        lines.write('{"id": 1000000, "lat": 99, "lon": 0, "text": "nowhere"}\n')
    subscribe(state, *QUERIES)
    files = sorted(feed.folder.iterdir())

    class Noting(ToStore):
        def sinks(self, micro_batch, batch, version, parts):
            seen.extend(path for path in state.glob("found/**/*") if path.is_file())
            return parts

    with open_store(state) as store:
        follower = Follower(store, state / "index")
        relearner = Relearner(follower, store, None)
        storing = Storing(store, state / "found")
        batches = Batches(store, follower, Noting(), lambda: "s", relearner, files=lambda _: files, storing=storing)
        posts = spark.read.schema("id bigint, text string, lat double, lon double").json(str(feed.folder))
        batches(whole(posts), 0)
        assert [one.reason for one in store.rejected()] == ["lat is not between -90 and 90"]
    assert stored(state) == wanted(feed.rows, QUERIES)
    assert {path.suffix for path in seen if not path.name.startswith((".", "_"))} == {
        SMALL: set(),
        MUCH: {".arrow"},
        LARGE: {".arrow", ".parquet"},
    }[limits]


def test_all_parts_of_a_batch_become_one_parquet_file(tmp_path, monkeypatch):
    monkeypatch.setattr(sinks, "_AT_ONCE", 2)
    posts = pa.table({"id": ["a", "b"], "text": ["one", "two"]})
    pairs = pa.table({"subscription": [1, 2, 3, 1], "post_row": [0, 0, 0, 1]})
    bad = pa.table({"reason": ["no text"], "excerpt": ["x"]})
    parts = [Found(posts, pairs, bad), Found(posts.slice(0, 0), pairs.slice(0, 0), bad), Found(posts, pairs, bad)]
    left = list(ToParquet(tmp_path / "out").deliver("stream-name", 3, 9, parts))
    (file,) = (tmp_path / "out").iterdir()
    assert file.name == "matches-stream-n-0000000003.parquet"
    told = pq.read_table(file).to_pylist()
    assert [(row["subscription_id"], row["post_id"], row["text"]) for row in told[:4]] == [
        (1, "a", "one"),
        (2, "a", "one"),
        (3, "a", "one"),
        (1, "b", "two"),
    ]
    assert told[4:] == told[:4]
    assert {row["index_version"] for row in told} == {9}
    assert [(len(part.posts), len(part.matches), len(part.rejected)) for part in left] == [(0, 0, 1)] * 3


def test_a_batch_without_matches_makes_no_file(tmp_path):
    none = Found(pa.table({"id": [1]}), pa.table({"subscription": [], "post_row": []}), pa.table({"reason": []}))
    list(ToParquet(tmp_path / "out").deliver("stream-name", 3, 9, [none]))
    assert not (tmp_path / "out").exists()


def test_a_batch_that_comes_again_and_finds_nothing_takes_its_file_back(tmp_path):
    found = Found(pa.table({"id": [1]}), pa.table({"subscription": [1], "post_row": [0]}), pa.table({"reason": []}))
    parquet = ToParquet(tmp_path / "out")
    parquet.deliver("stream-name", 3, 9, [found])
    assert len(list((tmp_path / "out").iterdir())) == 1
    parquet.deliver("stream-name", 3, 10, [found._replace(matches=spill.matches.slice(0, 0))])
    assert not list((tmp_path / "out").iterdir())


def test_a_parquet_file_is_on_the_disk_before_the_batch_is_marked_as_done(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(sinks, "sync", lambda path: synced.append(path.name))
    found = Found(pa.table({"id": [1]}), pa.table({"subscription": [1], "post_row": [0]}), pa.table({"reason": []}))
    ToParquet(tmp_path / "out").deliver("stream-name", 3, 9, [found])
    assert synced == [".matches-stream-n-0000000003.parquet.partial", "out"]
