"""A file that two queries read goes when both are done with it, and not before."""

from __future__ import annotations

from contextlib import nullcontext

from tests.stream.test_source_log import Notes

from tidings.stream.source_cleanup import TwiceTaken, deleting


def both(folder) -> tuple[Notes, Notes]:
    one, other = (Notes(folder / name) for name in ("one", "other") if (folder / name).mkdir() is None)
    other.posts = one.posts
    return one, other


def took(notes: Notes, entry: int, *names: str, done: bool = True) -> None:
    notes.note(f"sources/0/{entry}", *notes.entry(entry, *names))
    notes.batch(entry, {"logOffset": entry})
    if done:
        notes.note(f"commits/{entry}", {})


def left(notes: Notes) -> list[str]:
    return sorted(file.name for file in notes.posts.iterdir())


def test_a_file_goes_when_both_are_done_with_it(tmp_path):
    one, other = both(tmp_path)
    files = TwiceTaken(one.checkpoint, other.checkpoint)
    assert files.delete() == 0
    took(one, 0, "a.jsonl", "b.jsonl")
    took(one, 1, "c.jsonl")
    assert files.delete() == 0
    took(other, 0, "a.jsonl")
    took(other, 1, "b.jsonl", done=False)
    assert files.delete() == 1
    assert left(one) == ["b.jsonl", "c.jsonl"]
    other.note("commits/1", {})
    assert files.delete() == 1
    assert left(one) == ["c.jsonl"]
    assert files.delete() == 0


def test_a_batch_takes_several_entries_and_compact_logs_tell_them_too(tmp_path):
    one, other = both(tmp_path)
    files = TwiceTaken(one.checkpoint, other.checkpoint)
    took(one, 0, "a.jsonl")
    took(other, 0, "a.jsonl")
    assert files.delete() == 1
    for notes in (one, other):
        (notes.checkpoint / "sources" / "0" / "0").unlink()
        notes.note("sources/0/2.compact", *notes.entry(0, "a.jsonl"), *notes.entry(1, "b.jsonl"))
        notes.batch(1, {"logOffset": 2})
        notes.note("commits/1", {})
    assert files.delete() == 1
    assert left(one) == ["a.jsonl"], "what came anew by an old name is not read again, nor deleted"


def test_what_is_left_goes_when_both_have_ended_and_posts_from_elsewhere_have_no_files(tmp_path):
    one, other = both(tmp_path)
    with deleting(nullcontext(), TwiceTaken(one.checkpoint, other.checkpoint), print):
        took(one, 0, "a.jsonl")
        took(other, 0, "a.jsonl")
    assert left(one) == []
    one.batch(1, {"posts": {"0": 17}})
    one.note("commits/1", {})
    assert TwiceTaken(one.checkpoint, other.checkpoint).delete() == 0
