"""The backlog when a batch begins: estimated from file sizes, or counted by offsets."""

from __future__ import annotations

import json
from collections import Counter

from tidings.stream.backlog import FileBacklog, KafkaBacklog, PendingFiles, count_messages, pending_messages


def _log_batch(checkpoint, batch: int, *files) -> list:
    """Write what Spark writes before a batch begins; return the files."""
    (checkpoint / "sources" / "0").mkdir(parents=True, exist_ok=True)
    entries = [json.dumps({"path": f"file://{file}", "timestamp": 0, "batchId": batch}) for file in files]
    (checkpoint / "sources" / "0" / str(batch)).write_text("\n".join(["v1", *entries]))
    return list(files)


def test_file_backlog_counts_the_bytes_of_the_batch_and_of_pending_files(tmp_path):
    folder, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    folder.mkdir()
    first, second, third = (folder / f"{name}.jsonl" for name in "abc")
    for file, size in ((first, 1_000), (second, 3_000), (third, 500)):
        file.write_bytes(b"x" * size)
    (folder / ".hidden.jsonl").write_bytes(b"x" * 9_999)
    backlog = FileBacklog(PendingFiles(folder, "json", checkpoint / "sources" / "0"), 100.0)
    assert backlog.posts(0, _log_batch(checkpoint, 0, first)) == 45
    files = _log_batch(checkpoint, 1, second)
    assert backlog.posts(1, files) == 35
    backlog.observe_batch(1, 10)  # posts are larger than assumed
    assert backlog.posts(1, files) < 35


def test_file_backlog_ignores_missing_files(tmp_path):
    backlog = FileBacklog(PendingFiles(tmp_path, "json", tmp_path / "none"), 100.0)
    assert backlog.posts(0, [tmp_path / "deleted.jsonl"]) == 0


def test_kafka_backlog_counts_offsets_of_all_partitions(tmp_path):
    checkpoint = tmp_path / "checkpoint"
    (checkpoint / "offsets").mkdir(parents=True)
    (checkpoint / "sources" / "0").mkdir(parents=True)
    (checkpoint / "sources" / "0" / "0").write_text('\0v1\n{"t":{"0":0,"1":5}}')
    (checkpoint / "offsets" / "0").write_text('v1\n{}\n{"t":{"0":10,"1":15}}')
    latest = None
    backlog = KafkaBacklog(checkpoint, lambda: latest)
    assert backlog.posts(0) == 20, "only the batch, while the latest offsets are unknown"
    latest = '{"t":{"0":12,"1":16}}'
    assert backlog.posts(0) == 23
    assert backlog.posts(1) is None, "it has not begun"
    assert count_messages(latest) == 28
    assert pending_messages('{"t":{"0":1,"1":1}}', latest) == 0, "reported before the batch"


def test_pending_files_are_drawn_at_random_up_to_a_size(tmp_path):
    for name in "abcde":
        (tmp_path / f"{name}.jsonl").write_bytes(b"x" * 100)
    pending = PendingFiles(tmp_path, "json", tmp_path / "none")
    drawn = [[file.stem for file in pending.draw(150, seed)] for seed in range(60)]
    assert {len(names) for names in drawn} == {2}
    counts = Counter(name for names in drawn for name in names)
    assert all(12 <= counts[name] <= 36 for name in "abcde"), "24 are expected of each, the last one too"
    assert pending.draw(150, 3) == pending.draw(150, 3)
    assert len(pending.draw(1e9)) == 5
    assert pending.draw(0) == []
