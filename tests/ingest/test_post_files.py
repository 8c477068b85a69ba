"""Files of posts are found by path and checked before Spark starts."""

from __future__ import annotations

import gzip

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidings.errors import InputError
from tidings.ingest.post_files import find_post_files


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def names(posts) -> list[str]:
    return [str(file) for file in posts.files]


def test_a_directory_yields_all_files_below_except_hidden_and_unfinished_ones(folder):
    for name in ("d/lang=en/a.jsonl", "d/b.JSONL.gz", "d/_SUCCESS", "d/.a.crc", "d/_tmp/c.jsonl", "d/.x/d.csv"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")
    found = find_post_files("d")
    assert (found.format, names(found), str(found.base)) == ("json", ["d/b.JSONL.gz", "d/lang=en/a.jsonl"], "d")


def test_an_existing_name_is_not_a_pattern(folder):
    for name in ("a[1].csv", "a1.csv"):
        (folder / name).write_text("text\n")
    assert names(find_post_files("a[1].csv")) == ["a[1].csv"]
    assert names(find_post_files("a?.csv")) == ["a1.csv"]
    assert len(find_post_files("*.csv").files) == 2


def test_headers_are_read_through_bom_gzip_and_quotes(folder):
    with gzip.open(folder / "a.csv.gz", "wb") as out:
        out.write('\ufeffid,"text","a\nb"\r\n'.encode())
    assert find_post_files("a.csv.gz").headers == (("id", "text", "a\nb"),)


def test_empty_csv_files_are_ignored_if_others_have_rows(folder):
    (folder / "d").mkdir()
    (folder / "d" / "a.csv").write_text("")
    (folder / "d" / "b.csv").write_text("text\nx\n")
    assert names(find_post_files("d")) == ["d/b.csv"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("_a.jsonl", b"", "starts with"),
        ("a:b.jsonl", b"", "colon"),
        ("a.tsv", b"", "unknown format"),
        ("a.gz", b"", "unknown format"),
        ("a.csv", b"", "needs a header"),
        ("a.csv", b"text,text\n", "`text` occurs twice"),
        ("a.csv.gz", b"text\n", "cannot be read as CSV"),
        ("a.parquet", b"PAR1 and no more", "cannot be read as Parquet"),
    ],
)
def test_a_file_that_spark_would_misread_is_rejected_by_name(folder, name, content, message):
    (folder / name).write_bytes(content)
    with pytest.raises(InputError, match=message) as error:
        find_post_files(name)
    assert str(error.value).startswith(f"{name}: ")


def test_parquet_files_must_agree_on_the_types_of_post_fields(folder):
    (folder / "d").mkdir()
    pq.write_table(pa.table({"id": [1], "text": ["a"], "more": [1]}), folder / "d" / "a.parquet")
    pq.write_table(pa.table({"text": pa.array(["b"], pa.large_string()), "more": ["x"]}), folder / "d" / "b.parquet")
    assert len(find_post_files("d").files) == 2
    pq.write_table(pa.table({"id": ["x"], "text": ["a"]}), folder / "d" / "c.parquet")
    with pytest.raises(InputError, match=r"`id` has different types: int64 in d/a\.parquet and string in d/c\.parquet"):
        find_post_files("d")
