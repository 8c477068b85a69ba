"""The Parquet sink: one durable file per batch, replaced by a replay."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from tidings.store import BatchChunk
from tidings.stream import sinks
from tidings.stream.sinks import ParquetSink

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
