"""Files in the inbox are complete and appear once."""

from __future__ import annotations

import json

import pytest

from tidings.ingest import inbox


def test_a_file_appears_complete_and_once(tmp_path):
    posts = [{"id": "a", "text": "tea ☕"}, {"id": "b", "text": "line\nbreak"}]
    for _ in range(2):
        file = inbox.write_posts(tmp_path / "inbox", "crawl-000001", posts)
    assert [entry.name for entry in (tmp_path / "inbox").iterdir()] == ["crawl-000001.jsonl"]
    assert [json.loads(line) for line in file.read_text("utf-8").splitlines()] == posts


def test_a_failed_write_leaves_no_file(tmp_path):
    def iter_and_fail():
        yield {"id": "a", "text": "tea"}
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        inbox.write_posts(tmp_path, "api-000001", iter_and_fail())
    assert not list(tmp_path.iterdir())
