"""How the schema of a directory of posts is inferred, and what is reported about files that cannot be read."""

from __future__ import annotations

import threading

import pytest

from tidings.errors import InputError
from tidings.stream.file_source import _first_file, infer_or_load_schema, stream_files
from tidings.stream.options import StreamOptions
from tidings.stream.sources import infer_schema


def test_the_schema_comes_from_the_first_file_that_is_not_empty(spark, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.jsonl").touch()
    assert _first_file(folder) is None
    (folder / "b.jsonl").write_text('{"id": 7, "text": "storm"}\n')
    directory = infer_or_load_schema(spark, str(folder), tmp_path / "source.json", lambda: False)
    assert directory is not None
    assert directory.schema["id"].dataType.simpleString() == "bigint"


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.json.gz"])
def test_a_file_that_is_not_compressed_as_named_is_reported_with_a_remedy(spark, tmp_path, name):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / name).write_text("this file is not compressed\n")
    options = StreamOptions(posts=str(folder), store_url=str(tmp_path), work_dir=tmp_path)
    with pytest.raises(InputError) as raised:
        infer_schema(options, spark, threading.Event())
    assert str(raised.value) == (
        f"{folder / name}: the file is damaged (not a gzip file). "
        "Put a complete file in its place, or an empty one to continue without it."
    )


def test_a_directory_whose_name_looks_like_a_pattern_is_read(spark, tmp_path):
    folder = tmp_path / "posts [1] {a}"
    folder.mkdir()
    (folder / "a.jsonl").write_text('{"id": 7, "text": "storm"}\n')
    directory = infer_or_load_schema(spark, str(folder), tmp_path / "source.json", lambda: False)
    assert directory is not None
    rows = []
    writer = stream_files(spark, directory, 100).writeStream.foreachBatch(lambda batch, _: rows.extend(batch.collect()))
    writer.option("checkpointLocation", str(tmp_path / "log")).trigger(availableNow=True).start().awaitTermination(60)
    assert [row["text"] for row in rows] == ["storm"]
