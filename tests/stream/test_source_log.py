"""Which files a batch takes is known from Spark's notes, and a file that is gone is missed."""

from __future__ import annotations

import json

import pytest

from tidings.errors import InputError
from tidings.store import open_store
from tidings.stream.checkpoint import check_source, open_batch
from tidings.stream.index_updater import Follower
from tidings.stream.micro_batch import Batches
from tidings.stream.plan_refresh import Relearner
from tidings.stream.sinks import ToStore
from tidings.stream.source_log import taken_files


class Notes:
    """A checkpoint as Spark writes it."""

    def __init__(self, folder):
        self.checkpoint, self.posts = folder / "checkpoint", folder / "posts of May"
        for name in ("offsets", "commits", "sources/0"):
            (self.checkpoint / name).mkdir(parents=True)
        self.posts.mkdir()

    def note(self, name: str, *lines: object) -> None:
        (self.checkpoint / name).write_text("\n".join(["v1", *map(json.dumps, lines)]), "utf-8")

    def batch(self, number: int, offset: object) -> None:
        self.note(f"offsets/{number}", {"batchWatermarkMs": 0}, offset)

    def entry(self, number: int, *names: str) -> dict:
        for name in names:
            (self.posts / name).touch()
        return [{"path": (self.posts / name).as_uri(), "timestamp": 1, "batchId": number} for name in names]


@pytest.fixture
def notes(tmp_path):
    return Notes(tmp_path)


def names(notes, batch):
    return [file.name for file in taken_files(notes.checkpoint, batch)]


def test_a_batch_has_the_files_of_the_entries_that_came_with_it(notes):
    notes.batch(0, {"logOffset": 0})
    notes.batch(1, {"logOffset": 2})
    notes.note("sources/0/0", *notes.entry(0, "a.jsonl", "ö %.jsonl"))
    notes.note("sources/0/1", *notes.entry(1, "b.jsonl"))
    notes.note("sources/0/2", *notes.entry(2, "c.jsonl"))
    assert names(notes, 0) == ["a.jsonl", "ö %.jsonl"]
    assert names(notes, 1) == ["b.jsonl", "c.jsonl"]


def test_of_a_compact_log_only_its_own_files_are_a_batchs(notes):
    notes.batch(6, {"logOffset": 18})
    notes.batch(7, {"logOffset": 19})
    notes.note("sources/0/19.compact", *notes.entry(18, "a.jsonl"), *notes.entry(19, "b.jsonl"))
    assert names(notes, 7) == ["b.jsonl"]


def test_posts_from_elsewhere_have_no_files(notes):
    notes.batch(0, {"topic": {"0": 5, "1": 7}})
    assert taken_files(notes.checkpoint, 0) == []


def test_a_file_that_is_gone_is_named_with_both_ways_out(notes):
    notes.batch(0, {"logOffset": 0})
    notes.note("sources/0/0", *notes.entry(0, "a.jsonl", "b.jsonl"))
    (notes.posts / "b.jsonl").unlink()
    with pytest.raises(InputError, match=r"posts of May/b\.jsonl.*put it back.*remove .*/checkpoint"):
        taken_files(notes.checkpoint, 0)


def test_a_batch_with_a_file_that_is_gone_is_not_stored_without_it(notes, tmp_path):
    notes.batch(0, {"logOffset": 0})
    notes.note("sources/0/0", *notes.entry(0, "a.jsonl"))
    (notes.posts / "a.jsonl").unlink()
    with open_store(tmp_path) as store:
        follower = Follower(store, tmp_path / "index")
        relearner, no_session = Relearner(follower, store, None), {"meter": 0, "routes": 0}
        batches = Batches(store, follower, ToStore(), lambda: "s", relearner, **no_session)
        batches.files = lambda n: taken_files(notes.checkpoint, n)
        with pytest.raises(InputError, match=r"a\.jsonl"):
            batches(None, 0)
        assert [one.state for one in store.ledger()] == ["begun"]
        store.commit_parts("s", 0, [])
        batches(None, 0)  # done: nothing is asked of the file any more


def test_an_entry_that_is_gone_is_damage(notes):
    notes.batch(0, {"logOffset": 0})
    with pytest.raises(InputError, match=r"sources/0/0: .* missing or damaged"):
        taken_files(notes.checkpoint, 0)


def test_open_is_the_batch_that_is_noted_and_not_done(notes):
    assert open_batch(notes.checkpoint) is None
    notes.batch(0, {"logOffset": 0})
    assert open_batch(notes.checkpoint) == 0
    notes.note("commits/0", {})
    assert open_batch(notes.checkpoint) is None


def test_a_state_goes_on_with_the_source_it_began_with_only(notes):
    check_source(notes.checkpoint, None)
    check_source(notes.checkpoint, "posts")
    notes.batch(0, {"logOffset": 0})
    check_source(notes.checkpoint, None)
    with pytest.raises(InputError, match="belongs to the posts of a directory; give each source a --state"):
        check_source(notes.checkpoint, "posts")
    notes.batch(1, {"posts": {"0": 7}})
    check_source(notes.checkpoint, "posts")
    for other in (None, "news"):
        with pytest.raises(InputError, match="belongs to the posts of the Kafka topic posts; give"):
            check_source(notes.checkpoint, other)
