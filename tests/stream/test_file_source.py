"""Where a stream takes its posts from: what is kept of the first look, and files that do not fit it."""

from __future__ import annotations

import pytest

from tidings.errors import InputError
from tidings.spark.post_reader import csv_schema
from tidings.stream.file_source import Folder, check_headers, first_look


def test_a_csv_file_with_its_columns_in_other_places_is_not_misread_in_silence(tmp_path):
    folder = Folder(tmp_path, "csv", csv_schema(["id", "text", "note", "note"]))
    same, empty, other = tmp_path / "same.csv", tmp_path / "empty.csv", tmp_path / "other.csv"
    same.write_text("id,text,remark,\n1,storm,,\n")
    empty.touch()
    check_headers(folder, [same, empty])
    for header in ("text,id,note,note", "id,text,note", "id,text,note,note,lang", "name,words,a,b"):
        other.write_text(f"{header}\n1,2,3,4\n")
        with pytest.raises(InputError, match=f"^{other}: its columns are not those of the first file \\(id, text, in "):
            check_headers(folder, [same, other])


def test_columns_that_do_not_count_may_have_one_name_or_none():
    names = csv_schema(["text", "x", "x", ""]).names
    assert names == ["text", "_column_1", "_column_2", "_column_3", "_corrupt_record"]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"path": 1}', '{"path": "x", "format": "csv", "schema": {}}'])
def test_a_damaged_note_of_how_posts_are_read_is_named_with_the_way_out(tmp_path, content):
    kept = tmp_path / "source.json"
    kept.write_text(content)
    with pytest.raises(InputError, match=f"^{kept}: this file, which says how posts are read, is damaged; remove it"):
        first_look(None, str(tmp_path), kept, lambda: True)


def test_who_takes_only_what_is_there_does_not_wait_for_a_first_file(tmp_path):
    assert first_look(None, str(tmp_path), tmp_path / "source.json", lambda: False, waits=False) is None
