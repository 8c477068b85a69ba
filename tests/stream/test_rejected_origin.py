"""Rejected rows of a stream name their file and line: in every format, with repeated lines, and after a crash."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.stream.process import PostFeed, subscribe

from tidings.cli.options.state import locate_state
from tidings.cli.status import read_status, to_table
from tidings.store import open_store
from tidings.stream import rejected_origin
from tidings.testing.log import captured_events
from tidings.testing.stream import StreamHarness, background_commits

GOOD = '{"id": 1, "text": "a storm"}'
NO_TEXT = '{"id": 2}'
FAR = '{"id": 3, "text": "storm", "lat": 91, "lon": 0}'


@pytest.fixture
def feed(tmp_path):
    feed = PostFeed(tmp_path / "in dir")  # a blank in the path
    feed.folder.mkdir()
    subscribe(tmp_path / "state", "storm")
    return feed


def origins(state):
    with open_store(state) as store:
        rows = store.batches.rejected_rows(1000)
    return [(row.source, row.source_row, row.reason) for row in rows]


def test_json_lines_name_file_and_line_also_of_repeated_lines(spark, feed, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(rejected_origin, "_MANY_FILES", 1)
    lines = [GOOD, "bad", "", NO_TEXT, "bad", "[1]", FAR, '[{"text": "storm"}, {"id": 5}]', "bad"]
    first = feed.add_text("a.jsonl", "\n".join([GOOD, GOOD]))
    second = feed.add_text("b.jsonl", "\n".join(lines) + "\n")
    third = feed.add_text("c.jsonl", "bad\r\nbad")
    StreamHarness(spark, feed.folder, tmp_path / "state", max_posts_per_batch=1000).run()
    unreadable, missing, far = "the line cannot be read", "the text is missing", "lat is not between -90 and 90"
    assert origins(tmp_path / "state") == [
        (str(second), 2, unreadable), (str(second), 4, missing), (str(second), 5, unreadable),
        (str(second), 6, unreadable), (str(second), 7, far), (str(second), 8, missing), (str(second), 9, unreadable),
        (str(third), 1, unreadable), (str(third), 2, unreadable),
    ]  # fmt: skip
    assert first.exists()
    status = read_status(locate_state(str(tmp_path / "state")))
    from rich.console import Console

    Console(width=400).print(to_table(status))
    assert "c.jsonl, line 2" in capsys.readouterr().out


def test_a_post_whose_id_is_too_long_names_its_line(spark, feed, tmp_path):
    file = feed.add_text("a.jsonl", "\n".join([GOOD, json.dumps({"id": "x" * 3000, "text": "a storm"})]))
    StreamHarness(spark, feed.folder, tmp_path / "state").run()
    assert origins(tmp_path / "state") == [(str(file), 2, "the id is longer than 1,024 bytes")]


@pytest.mark.parametrize("mode", ["replicated", "partitioned"])
def test_csv_and_parquet_name_line_and_row(spark, feed, tmp_path, mode):
    feed.add_text("0.csv", 'id,text,lat,lon\n1,"two\nlines of storm",,\n\n2,storm,95,1\n3,storm\n')
    options = {"execution_mode": mode, "matchers": 2 if mode == "partitioned" else None}
    StreamHarness(spark, feed.folder, tmp_path / "state", **options).run()
    assert [(row, reason) for _, row, reason in origins(tmp_path / "state")] == [
        (5, "lat is not between -90 and 90"), (6, "the line cannot be read"),
    ]  # fmt: skip

    parquet, state = tmp_path / "parquet", tmp_path / "second"
    parquet.mkdir()
    subscribe(state, "storm")
    pq.write_table(pa.table({"id": [1, 2, 3], "text": ["storm", None, "storm"]}), parquet / "p.parquet")
    StreamHarness(spark, parquet, state, **options).run()
    assert origins(state) == [(str(parquet / "p.parquet"), 2, "the text is missing")]


def test_the_origin_survives_a_crash_before_a_background_commit(spark, feed, tmp_path):
    file = feed.add_text("a.jsonl", f"{GOOD}\nbad\n{NO_TEXT}\n")
    harness = StreamHarness(spark, feed.folder, tmp_path / "state")
    with background_commits():
        harness.crash("after-spill", 0)
        file.write_text(json.dumps({"text": "rewritten"}))
    harness.run()
    assert origins(tmp_path / "state") == [
        (str(file), 2, "the line cannot be read"), (str(file), 3, "the text is missing"),
    ]  # fmt: skip


def test_a_batch_goes_on_if_its_rejected_rows_cannot_be_located(spark, feed, tmp_path, monkeypatch):
    def fail(*_):
        raise RuntimeError  # without a text

    monkeypatch.setattr("tidings.stream.sources.locate_rejected", fail)
    feed.add_text("a.jsonl", f"{GOOD}\nbad\n")
    with captured_events() as events:
        assert StreamHarness(spark, feed.folder, tmp_path / "state").run().matches == 1
    assert "rejected rows not located" in str(events)
    assert origins(tmp_path / "state") == [(None, None, "the line cannot be read")]
