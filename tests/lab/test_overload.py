"""Feeding posts at given rates, and reading what a stream made of them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidings.store import open_store
from tidings_lab.datasets import Posts
from tidings_lab.overload_stream import PhasedFeeder, read_outcomes, sustained_rate

POSTS = Posts(pa.table({"id": [0, 1, 2], "text": ["a", "b", "c"]}), "test")


def _read(folder: Path) -> pa.Table:
    return pa.concat_tables(pq.read_table(file) for file in sorted(folder.glob("[0-9]*.parquet")))


def test_feeder_writes_the_posts_of_a_rate_with_their_time(tmp_path: Path) -> None:
    feeder = PhasedFeeder(tmp_path, POSTS)
    feeder.write_file(2)
    phase = feeder.feed(2.0, 10.0, 0.5)  # two files, 5 posts: 2.5 posts per file are rounded in turns
    assert (phase.first_id, phase.end_id) == (2, 7)
    table = _read(tmp_path)
    assert table.column("id").to_pylist() == list(range(7))
    assert table.column("text").to_pylist() == ["a", "b", "c", "a", "b", "c", "a"]
    times = [float(time) for time in table.column("time").to_pylist()]
    assert times[2] >= phase.started_at >= times[0]
    assert times == sorted(times)
    assert not list(tmp_path.glob(".*"))


def test_feeders_write_the_same_texts_in_a_phase_whatever_they_wrote_before(tmp_path: Path) -> None:
    texts = []
    for before in (0, 1, 4):
        feeder = PhasedFeeder(tmp_path / str(before), POSTS)
        feeder.folder.mkdir()
        feeder.write_file(before)
        feeder.first_id = feeder.written
        feeder.write_file(3)
        texts.append(_read(feeder.folder).column("text").to_pylist()[before:])
    assert texts == [["a", "b", "c"]] * 3


def test_outcomes_have_the_latency_of_every_match(tmp_path: Path) -> None:
    sink = tmp_path / "matches"
    sink.mkdir()
    with open_store(tmp_path / "state") as store:
        for batch in range(3):
            store.batches.begin("stream", batch, 1, 1, shed='{"policy": "subscription", "level": 2, "limit": 3.0}')
            if batch < 2:
                store.batches.commit(
                    "stream", batch, pa.table({"id": ["x"]}), pa.table({"subscription": [], "post_row": []})
                )
        records = store.batches.recent()
        written = records[0].finished_at - 1.5
        rows = {"post_id": [7, 7, 8], "time": [repr(written)] * 3, "subscription_id": [1, 2, 1]}
        pq.write_table(pa.table(rows), sink / "matches-stream-0000000000.parquet")
        outcomes = read_outcomes(store, sink)
    assert [one.record.batch for one in outcomes] == [0, 1]  # the last one is not committed
    assert outcomes[0].posts.tolist() == [7, 7, 8]
    assert outcomes[0].latency_s.tolist() == pytest.approx([1.5] * 3)
    assert len(outcomes[1].posts) == 0
    seconds = records[1].finished_at - records[0].started_at
    assert sustained_rate(records[:2], 100) == pytest.approx(100 / seconds)
