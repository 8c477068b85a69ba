"""What a large batch found comes in parts, through files, and is what it would be in one piece."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.stream.running import QUERIES, Feed, stored, subscribe, wanted

from tidings.errors import InputError
from tidings.index.follow import Follower
from tidings.spark import deliver, found
from tidings.spark.deliver import ToParquet, ToStore
from tidings.spark.found import gathered, is_large, keep, kept
from tidings.spark.posts import whole
from tidings.spark.relearning import Relearner
from tidings.spark.storing import Storing
from tidings.spark.stream import Batches
from tidings.store import Found, open_store

COLUMNS = "id decimal(38,0), text string, time timestamp, tags array<string>, reason string, subscriptions array<long>"
ROWS = [
    (Decimal(10**37), "one", datetime(2500, 1, 1, tzinfo=UTC), ["a", "b"], None, [1, 2]),
    (Decimal(2), "two", None, None, "no good", []),
    (Decimal(3), "Grüße", datetime(1800, 1, 1, tzinfo=UTC), [], None, [7]),
]


@pytest.fixture
def rows(spark, monkeypatch):
    monkeypatch.setattr(found, "_ROWS_AT_ONCE", 2)
    monkeypatch.setattr(found, "_PART_ROWS", 2)
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    yield spark.createDataFrame(ROWS * 5, COLUMNS).coalesce(1)
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
    monkeypatch.setattr(found, "_files", lambda spool: [])
    with pytest.raises(InputError, match="wrote 15 rows there, of which 0 are to be seen"):
        gathered(rows, tmp_path)


def test_large_is_what_the_files_hold_together_once_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(found, "_LARGE_BYTES", 1_000)
    plain, packed = tmp_path / "a.jsonl", tmp_path / "b.jsonl.gz"
    plain.write_bytes(b"x" * 600)
    packed.write_bytes(b"x" * 200)
    assert not is_large([])
    assert not is_large([plain])
    assert is_large([plain, plain])
    assert is_large([packed])


@pytest.mark.parametrize("large_bytes", [0, 1 << 30])
def test_a_large_batch_is_stored_as_a_small_one_is(spark, tmp_path, monkeypatch, large_bytes):
    monkeypatch.setattr(found, "_LARGE_BYTES", large_bytes)
    spooled: list[str] = []
    monkeypatch.setattr(found, "_PART_ROWS", 3)
    monkeypatch.setattr(found, "_ROWS_AT_ONCE", 3)
    feed, state = Feed(tmp_path / "in", posts_a_file=200), tmp_path / "state"
    feed.put()
    subscribe(state, *QUERIES)
    file = next(feed.folder.iterdir())

    class Noting(ToStore):
        def deliver(self, stream, batch, version, parts):
            spooled.extend(path.name for path in state.glob("found/*/*.parquet"))
            return parts

    with open_store(state) as store:
        follower = Follower(store, state / "index")
        relearner = Relearner(follower, store, None)
        storing = Storing(store, state / "found")
        batches = Batches(store, follower, Noting(), lambda: "s", relearner, files=lambda _: [file], storing=storing)
        posts = spark.read.schema("id bigint, text string, lat double, lon double").json(str(feed.folder))
        batches(whole(posts), 0)
    assert stored(state) == wanted(feed.rows, QUERIES)
    assert bool(spooled) == (large_bytes == 0)


def test_all_parts_of_a_batch_become_one_parquet_file(tmp_path, monkeypatch):
    monkeypatch.setattr(deliver, "_AT_ONCE", 2)
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
    parquet.deliver("stream-name", 3, 10, [found._replace(matches=found.matches.slice(0, 0))])
    assert not list((tmp_path / "out").iterdir())


def test_a_parquet_file_is_on_the_disk_before_the_batch_is_marked_as_done(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(deliver, "sync", lambda path: synced.append(path.name))
    found = Found(pa.table({"id": [1]}), pa.table({"subscription": [1], "post_row": [0]}), pa.table({"reason": []}))
    ToParquet(tmp_path / "out").deliver("stream-name", 3, 9, [found])
    assert synced == [".matches-stream-n-0000000003.parquet.partial", "out"]


def test_parquet_is_as_large_as_it_says(tmp_path, monkeypatch):
    monkeypatch.setattr("tidings.spark.found._LARGE_BYTES", 100_000)
    texts = pa.table({"text": [f"{number:0100d}" for number in range(900)]})
    pq.write_table(texts, tmp_path / "a.parquet", compression="zstd", use_dictionary=False)
    assert (tmp_path / "a.parquet").stat().st_size < 50_000
    assert not is_large([tmp_path / "a.parquet"])
    assert is_large([tmp_path / "a.parquet"] * 2)
