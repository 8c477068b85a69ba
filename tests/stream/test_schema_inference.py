"""The first look of a stream at its files: what it takes from them, and what it says of those it cannot read."""

from __future__ import annotations

import threading

import pytest

from tidings.errors import InputError
from tidings.stream.file_source import _first_file, first_look, read_folder
from tidings.stream.options import StreamRequest
from tidings.stream.sources import look


def test_the_first_file_that_holds_anything_is_looked_at(spark, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.jsonl").touch()
    assert _first_file(folder) is None
    (folder / "b.jsonl").write_text('{"id": 7, "text": "storm"}\n')
    look = first_look(spark, str(folder), tmp_path / "source.json", lambda: False)
    assert look is not None
    assert look.schema["id"].dataType.simpleString() == "bigint"


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.json.gz"])
def test_a_file_that_is_not_packed_as_its_name_says_is_named_with_the_way_out(spark, tmp_path, name):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / name).write_text("this is no gzip\n")
    request = StreamRequest(posts=str(folder), where=str(tmp_path), folder=tmp_path)
    with pytest.raises(InputError) as refused:
        look(request, spark, threading.Event())
    assert str(refused.value) == (
        f"{folder / name}: this file is damaged and cannot be read (not a gzip file); "
        "put a whole one in its place, or an empty one to go on without it."
    )


def test_a_directory_whose_name_looks_like_a_pattern_is_that_directory(spark, tmp_path):
    folder = tmp_path / "posts [1] {a}"
    folder.mkdir()
    (folder / "a.jsonl").write_text('{"id": 7, "text": "storm"}\n')
    look = first_look(spark, str(folder), tmp_path / "source.json", lambda: False)
    assert look is not None
    found = []
    writer = read_folder(spark, look, 100).writeStream.foreachBatch(lambda batch, _: found.extend(batch.collect()))
    writer.option("checkpointLocation", str(tmp_path / "log")).trigger(availableNow=True).start().awaitTermination(60)
    assert [row["text"] for row in found] == ["storm"]
