"""The Parquet sink: one durable file per batch, replaced by a replay."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
from tests.stream.process import QUERIES, PostFeed, expected_matches, subscribe

from tidings.store import BatchChunk, open_store
from tidings.stream import sinks
from tidings.stream.sinks import ParquetSink
from tidings.testing.stream import StreamHarness

ONE_MATCH = BatchChunk(
    pa.table({"id": [1]}), pa.table({"subscription": [1], "post_row": [0]}), pa.table({"reason": []})
)
NO_MATCH = ONE_MATCH._replace(matches=ONE_MATCH.matches.slice(0, 0))


def test_all_chunks_of_a_batch_become_one_parquet_file(tmp_path, monkeypatch):
    monkeypatch.setattr(sinks, "_TABLE_ROWS", 2)
    posts = pa.table({"id": ["a", "b"], "text": ["one", "two"]})
    pairs = pa.table({"subscription": [1, 2, 3, 1], "post_row": [0, 0, 0, 1]})
    bad = pa.table({"reason": ["no text"], "excerpt": ["x"]})
    full, empty = BatchChunk(posts, pairs, bad), BatchChunk(posts.slice(0, 0), pairs.slice(0, 0), bad)
    rest = list(ParquetSink(tmp_path / "out").write("stream-name", 3, 9, [full, empty, full]))
    (file,) = (tmp_path / "out").iterdir()
    assert file.name == "matches-stream-n-0000000003.parquet"
    rows = pq.read_table(file).to_pylist()
    assert [(row["subscription_id"], row["post_id"], row["text"]) for row in rows[:4]] == [
        (1, "a", "one"),
        (2, "a", "one"),
        (3, "a", "one"),
        (1, "b", "two"),
    ]
    assert rows[4:] == rows[:4]
    assert {row["index_version"] for row in rows} == {9}
    assert [(len(chunk.posts), len(chunk.matches), len(chunk.rejected)) for chunk in rest] == [(0, 0, 1)] * 3
    assert [(chunk.delivered_posts, chunk.delivered_matches) for chunk in rest] == [(2, 4), (0, 0), (2, 4)]


def test_the_ledger_and_the_metrics_count_what_a_sink_received(spark, tmp_path):
    feed, state, out = PostFeed(tmp_path / "in"), tmp_path / "state", tmp_path / "out"
    feed.add_files(2)
    subscribe(state, *QUERIES)
    snapshot = StreamHarness(spark, feed.folder, state, sink=str(out)).run()
    expected = expected_matches(feed.rows, QUERIES)
    with open_store(state) as store:
        ledger = store.batches.recent()
        assert store.sizes().matches == 0
    written = pq.read_table(out)
    assert len(written) == sum(batch.matches for batch in ledger) == snapshot.matches == len(expected) > 0
    assert sum(batch.posts for batch in ledger) == len({post for _, post in expected})


def test_a_batch_without_matches_writes_no_file(tmp_path):
    list(ParquetSink(tmp_path / "out").write("stream-name", 3, 9, [NO_MATCH]))
    assert not (tmp_path / "out").exists()


def test_a_replay_without_matches_deletes_the_file(tmp_path):
    sink = ParquetSink(tmp_path / "out")
    sink.write("stream-name", 3, 9, [ONE_MATCH])
    assert len(list((tmp_path / "out").iterdir())) == 1
    sink.write("stream-name", 3, 10, [NO_MATCH])
    assert not list((tmp_path / "out").iterdir())


def test_a_parquet_file_is_synced_before_the_batch_is_committed(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(sinks, "fsync", lambda path: synced.append(path.name))
    ParquetSink(tmp_path / "out").write("stream-name", 3, 9, [ONE_MATCH])
    assert synced == [".matches-stream-n-0000000003.parquet.partial", "out"]
