"""Which files a path means, and which are refused before Spark starts."""

from __future__ import annotations

import gzip

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidings.errors import InputError
from tidings.ingest.post_files import find_posts


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def names(found) -> list[str]:
    return [str(file) for file in found.files]


def test_a_directory_means_all_files_below_but_hidden_and_unfinished_ones(folder):
    for name in ("d/lang=en/a.jsonl", "d/b.JSONL.gz", "d/_SUCCESS", "d/.a.crc", "d/_tmp/c.jsonl", "d/.x/d.csv"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")
    found = find_posts("d")
    assert (found.format, names(found), str(found.base)) == ("json", ["d/b.JSONL.gz", "d/lang=en/a.jsonl"], "d")


def test_a_name_that_exists_is_no_pattern(folder):
    for name in ("a[1].csv", "a1.csv"):
        (folder / name).write_text("text\n")
    assert names(find_posts("a[1].csv")) == ["a[1].csv"]
    assert names(find_posts("a?.csv")) == ["a1.csv"]
    assert len(find_posts("*.csv").files) == 2


def test_headers_are_read_through_bom_gzip_and_quotes(folder):
    with gzip.open(folder / "a.csv.gz", "wb") as out:
        out.write('\ufeffid,"text","a\nb"\r\n'.encode())
    assert find_posts("a.csv.gz").headers == (("id", "text", "a\nb"),)


def test_empty_csv_files_are_passed_over_when_others_are_full(folder):
    (folder / "d").mkdir()
    (folder / "d" / "a.csv").write_text("")
    (folder / "d" / "b.csv").write_text("text\nx\n")
    assert names(find_posts("d")) == ["d/b.csv"]


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("_a.jsonl", b"", "unfinished"),
        ("a:b.jsonl", b"", "colon"),
        ("a.tsv", b"", "does not tell its format"),
        ("a.gz", b"", "does not tell its format"),
        ("a.csv", b"", "needs a header"),
        ("a.csv", b"text,text\n", "`text` is there twice"),
        ("a.csv.gz", b"text\n", "cannot be read as CSV"),
        ("a.parquet", b"PAR1 and no more", "cannot be read as Parquet"),
    ],
)
def test_what_spark_would_misread_is_refused_by_name(folder, name, content, sentence):
    (folder / name).write_bytes(content)
    with pytest.raises(InputError, match=sentence) as error:
        find_posts(name)
    assert str(error.value).startswith(f"{name}: ")


def test_parquet_files_must_agree_on_the_types_that_count(folder):
    (folder / "d").mkdir()
    pq.write_table(pa.table({"id": [1], "text": ["a"], "more": [1]}), folder / "d" / "a.parquet")
    pq.write_table(pa.table({"text": pa.array(["b"], pa.large_string()), "more": ["x"]}), folder / "d" / "b.parquet")
    assert len(find_posts("d").files) == 2
    pq.write_table(pa.table({"id": ["x"], "text": ["a"]}), folder / "d" / "c.parquet")
    with pytest.raises(InputError, match=r"`id` holds int64 in d/a\.parquet and string in d/c\.parquet"):
        find_posts("d")
