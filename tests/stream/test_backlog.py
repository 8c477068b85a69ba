"""What is unread when a batch begins: by the size of files, or by offsets."""

from __future__ import annotations

import json

from tidings.stream.backlog import UnreadFiles, UnreadMessages, messages, waiting_messages
from tidings.stream.pending_files import WaitingFiles


def _log(checkpoint, batch: int, *files) -> None:
    """What Spark notes before a batch begins."""
    for name in ("offsets", "sources/0"):
        (checkpoint / name).mkdir(parents=True, exist_ok=True)
    entries = [json.dumps({"path": f"file://{file}", "timestamp": 0, "batchId": batch}) for file in files]
    (checkpoint / "sources" / "0" / str(batch)).write_text("\n".join(["v1", *entries]))
    (checkpoint / "offsets" / str(batch)).write_text(f'v1\n{{"batchWatermarkMs":0}}\n{{"logOffset":{batch}}}')


def test_files_of_the_batch_and_files_that_wait_count_by_their_bytes(tmp_path):
    folder, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    folder.mkdir()
    first, second, third = (folder / f"{name}.jsonl" for name in "abc")
    for file, size in ((first, 1_000), (second, 3_000), (third, 500)):
        file.write_bytes(b"x" * size)
    (folder / ".hidden.jsonl").write_bytes(b"x" * 9_999)
    unread = UnreadFiles(checkpoint, WaitingFiles(folder, "json", checkpoint / "sources" / "0"), 100.0)
    _log(checkpoint, 0, first)
    assert unread.posts(0) == 45
    _log(checkpoint, 1, second)
    assert unread.posts(1) == 35
    unread.taken(1, 10)  # posts are larger than thought
    assert unread.posts(1) < 35


def test_offsets_of_all_partitions_count(tmp_path):
    checkpoint = tmp_path / "checkpoint"
    (checkpoint / "offsets").mkdir(parents=True)
    (checkpoint / "sources" / "0").mkdir(parents=True)
    (checkpoint / "sources" / "0" / "0").write_text('\0v1\n{"t":{"0":0,"1":5}}')
    (checkpoint / "offsets" / "0").write_text('v1\n{}\n{"t":{"0":10,"1":15}}')
    newest = None
    unread = UnreadMessages(checkpoint, lambda: newest)
    assert unread.posts(0) == 20, "its own, while nothing is known of others"
    newest = '{"t":{"0":12,"1":16}}'
    assert unread.posts(0) == 23
    assert unread.posts(1) is None, "which has not begun"
    assert messages(newest) == 28
    assert waiting_messages('{"t":{"0":1,"1":1}}', newest) == 0, "told before"


def test_the_newest_waiting_files_are_found(tmp_path):
    import os

    for age, name in enumerate("abc"):
        file = tmp_path / f"{name}.jsonl"
        file.write_bytes(b"x" * 100)
        os.utime(file, (1_000 - age, 1_000 - age))
    waiting = WaitingFiles(tmp_path, "json", tmp_path / "none")
    assert [file.name for file in waiting.newest(150)] == ["a.jsonl", "b.jsonl"]
    assert waiting.bytes() == 300
