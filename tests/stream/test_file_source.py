"""A directory of posts: its saved schema, files that do not match it, and estimated sizes."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidings.errors import InputError
from tidings.spark.post_reader import csv_schema
from tidings.stream.file_source import PostDirectory, check_headers, estimate_input_bytes, infer_or_load_schema
from tidings.stream.session import STREAM_SETTINGS


def test_a_csv_file_with_columns_in_another_order_is_rejected(tmp_path):
    directory = PostDirectory(tmp_path, "csv", csv_schema(["id", "text", "note", "note"]))
    same, empty, other = tmp_path / "same.csv", tmp_path / "empty.csv", tmp_path / "other.csv"
    same.write_text("id,text,remark,\n1,storm,,\n")
    empty.touch()
    check_headers(directory, [same, empty])
    for header in ("text,id,note,note", "id,text,note", "id,text,note,note,lang", "name,words,a,b"):
        other.write_text(f"{header}\n1,2,3,4\n")
        with pytest.raises(
            InputError, match=f"^{other}: its columns differ from those of the first file \\(id, text, in "
        ):
            check_headers(directory, [same, other])


def test_columns_that_are_not_read_may_share_a_name_or_have_none():
    names = csv_schema(["text", "x", "x", ""]).names
    assert names == ["text", "_column_1", "_column_2", "_column_3", "_corrupt_record"]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"path": 1}', '{"path": "x", "format": "csv", "schema": {}}'])
def test_a_damaged_schema_file_is_reported_with_a_remedy(tmp_path, content):
    schema_file = tmp_path / "source.json"
    schema_file.write_text(content)
    with pytest.raises(InputError, match=f"^{schema_file}: this file with the schema .* is damaged. Remove it"):
        infer_or_load_schema(None, str(tmp_path), schema_file, lambda: True)


def test_without_waiting_an_empty_directory_has_no_schema(tmp_path):
    assert infer_or_load_schema(None, str(tmp_path), tmp_path / "source.json", lambda: False, waits=False) is None


def test_input_sizes_are_uncompressed(tmp_path):
    plain, compressed, parquet = tmp_path / "a.jsonl", tmp_path / "b.jsonl.gz", tmp_path / "c.parquet"
    plain.write_bytes(b"x" * 600)
    compressed.write_bytes(b"x" * 200)
    pq.write_table(pa.table({"text": ["storm" * 1_000] * 100}), parquet, use_dictionary=False)
    assert estimate_input_bytes([]) == 0
    assert estimate_input_bytes([plain, plain]) == 1_200
    assert estimate_input_bytes([compressed]) == 1_600
    assert estimate_input_bytes([parquet]) > 500_000 > 10 * parquet.stat().st_size


@pytest.mark.parametrize(("settings", "jobs"), [({}, 1), (STREAM_SETTINGS, 0)], ids=["Spark's own", "stream"])
def test_a_stream_lists_many_files_without_a_job(spark, tmp_path, settings, jobs):
    files = [tmp_path / f"{number}.txt" for number in range(40)]
    for file in files:
        file.touch()
    session, group = spark.newSession(), f"listing with {len(settings)} settings"
    for name, value in settings.items():
        session.conf.set(name, value)
    session.sparkContext.setJobGroup(group, "list files")
    session.read.text([str(file) for file in files])
    session.sparkContext.setLocalProperty("spark.jobGroup.id", None)
    assert len(session.sparkContext.statusTracker().getJobIdsForGroup(group)) == jobs
