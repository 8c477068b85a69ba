"""The line of a row: with blank lines, lists, several line ends, splits and records of several lines."""

from __future__ import annotations

import gzip

import pytest

from tidings.ingest.row_lines import JsonLines, RowLines, count_json_rows


def lines_of(file, file_format, rows, split=0):
    found = RowLines(file_format)
    try:
        return [found.line_of(file, split, row) for row in rows]
    finally:
        found.close()


@pytest.mark.parametrize(
    ("line", "rows"),
    [
        (b"\n", 0), (b" \t\r\n", 0), (b'{"a": 1}\n', 1), (b"junk", 1), (b"[]\n", 0), (b'[{"a": 1}, {}] x\n', 2),
        (b"[1, {}]\n", 1), (b"[null]", 1), (b"[[{}]]", 1), (b"[junk\n", 1), (b"\xef\xbb\xbf\n", 0), (b"\x00\n", 1),
    ],
)  # fmt: skip
def test_a_line_has_as_many_rows_as_spark_makes_of_it(line, rows):
    assert count_json_rows(line) == rows


def test_lines_of_json_rows_count_blank_lines_lists_and_all_line_ends(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_bytes(b"{}\n\n{}\r\n[{},{}]\r{}\n \nbad\nbad\n")
    assert lines_of(file, "json", range(8)) == [1, 3, 4, 4, 5, 7, 8, None]
    assert lines_of(file, "json", [6, 5, 6]) == [8, 7, 8], "a finder reads again to go back"
    packed = tmp_path / "a.jsonl.gz"
    packed.write_bytes(gzip.compress(file.read_bytes()))
    assert lines_of(packed, "json", range(8)) == [1, 3, 4, 4, 5, 7, 8, None]


def test_every_way_to_split_a_file_gives_the_same_lines(tmp_path):
    file = tmp_path / "a.jsonl"
    content = b'{"n": 0}\n\n{"n": 1}\r\n{"n": 2}\r{"n": 3}\nbad\n'
    file.write_bytes(content)
    starts = [offset for offset in range(1, len(content)) if content[offset - 1 : offset] in (b"\n", b"\r")]
    starts = [0, *(offset for offset in starts if content[offset - 1 : offset + 1] != b"\r\n")]
    numbers = {start: number for number, start in enumerate(starts, 1)}
    for split in range(1, len(content)):
        owned = [start for start in starts if start > split and count_json_rows(content[start:].splitlines()[0])]
        found = JsonLines(file)
        assert [found.line_of(split, row) for row in range(len(owned))] == [numbers[start] for start in owned], split
        found.close()


def test_lines_of_csv_records_are_those_where_they_begin(tmp_path):
    file = tmp_path / "a.csv"
    file.write_bytes(
        b'\xef\xbb\xbfid,text\r\n1,"two\r\nlines"\r\n\r\n2,b\r\n3\r\n4,"' + b"x" * 200_000 + b'"\r\n5,y\r\n'
    )
    assert lines_of(file, "csv", range(6)) == [2, 5, 6, 7, 8, None]
    assert lines_of(file, "csv", [3, 0, 3]) == [7, 2, 7]


def test_parquet_has_rows_and_a_file_that_is_gone_has_none(tmp_path):
    assert lines_of(tmp_path / "a.parquet", "parquet", [0, 41]) == [1, 42]
    assert lines_of(tmp_path / "gone.jsonl", "json", [0]) == [None]
