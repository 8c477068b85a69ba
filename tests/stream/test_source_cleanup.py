"""A file that two queries read is deleted when both have committed it."""

from __future__ import annotations

from tests.stream.test_source_log import Checkpoint

from tidings.stream.source_cleanup import SharedSourceCleaner, cleanup_loop


def make_pair(folder) -> tuple[Checkpoint, Checkpoint]:
    first, second = (Checkpoint(folder / name) for name in ("first", "second") if (folder / name).mkdir() is None)
    second.posts = first.posts
    return first, second


def log_batch(checkpoint: Checkpoint, entry: int, *names: str, committed: bool = True) -> None:
    checkpoint.write(f"sources/0/{entry}", *checkpoint.entry(entry, *names))
    checkpoint.add_batch(entry, {"logOffset": entry})
    if committed:
        checkpoint.write(f"commits/{entry}", {})


def remaining_files(checkpoint: Checkpoint) -> list[str]:
    return sorted(file.name for file in checkpoint.posts.iterdir())


def test_a_file_is_deleted_when_both_queries_have_committed_it(tmp_path):
    first, second = make_pair(tmp_path)
    cleaner = SharedSourceCleaner(first.path, second.path)
    assert cleaner.delete() == 0
    log_batch(first, 0, "a.jsonl", "b.jsonl")
    log_batch(first, 1, "c.jsonl")
    assert cleaner.delete() == 0
    log_batch(second, 0, "a.jsonl")
    log_batch(second, 1, "b.jsonl", committed=False)
    assert cleaner.delete() == 1
    assert remaining_files(first) == ["b.jsonl", "c.jsonl"]
    second.write("commits/1", {})
    assert cleaner.delete() == 1
    assert remaining_files(first) == ["c.jsonl"]
    assert cleaner.delete() == 0


def test_a_batch_may_have_several_entries_of_a_compact_log(tmp_path):
    first, second = make_pair(tmp_path)
    cleaner = SharedSourceCleaner(first.path, second.path)
    log_batch(first, 0, "a.jsonl")
    log_batch(second, 0, "a.jsonl")
    assert cleaner.delete() == 1
    for checkpoint in (first, second):
        (checkpoint.path / "sources" / "0" / "0").unlink()
        entries = (*checkpoint.entry(0, "a.jsonl"), *checkpoint.entry(1, "b.jsonl"))
        checkpoint.write("sources/0/2.compact", *entries)
        checkpoint.add_batch(1, {"logOffset": 2})
        checkpoint.write("commits/1", {})
    assert cleaner.delete() == 1
    assert remaining_files(first) == ["a.jsonl"], "a new file with an old name is neither read nor deleted"


def test_the_loop_deletes_at_its_end_and_kafka_has_no_files(tmp_path):
    first, second = make_pair(tmp_path)
    with cleanup_loop(SharedSourceCleaner(first.path, second.path)):
        log_batch(first, 0, "a.jsonl")
        log_batch(second, 0, "a.jsonl")
    assert remaining_files(first) == []
    first.add_batch(1, {"posts": {"0": 17}})
    first.write("commits/1", {})
    assert SharedSourceCleaner(first.path, second.path).delete() == 0
