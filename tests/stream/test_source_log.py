"""The files of a batch come from Spark's log; a missing file is reported."""

from __future__ import annotations

import json

import pytest

from tidings.errors import InputError
from tidings.store import open_store
from tidings.stream import micro_batch
from tidings.stream.checkpoint import check_source, open_batch
from tidings.stream.commit_queue import CommitQueue
from tidings.stream.index_updater import IndexUpdater
from tidings.stream.live_index import LiveIndex
from tidings.stream.micro_batch import MicroBatchRunner
from tidings.stream.plan_refresh import PlanRefresher
from tidings.stream.source_log import check_files_exist, files_of_batch


class Checkpoint:
    """A checkpoint as Spark writes it."""

    def __init__(self, folder):
        self.path, self.posts = folder / "checkpoint", folder / "posts of May"
        for name in ("offsets", "commits", "sources/0"):
            (self.path / name).mkdir(parents=True)
        self.posts.mkdir()
        (self.path / "metadata").write_text('{"id":"s"}')

    def write(self, name: str, *lines: object) -> None:
        (self.path / name).write_text("\n".join(["v1", *map(json.dumps, lines)]), "utf-8")

    def add_batch(self, number: int, offset: object) -> None:
        self.write(f"offsets/{number}", {"batchWatermarkMs": 0}, offset)

    def entry(self, number: int, *names: str) -> list[dict]:
        for name in names:
            (self.posts / name).touch()
        return [{"path": (self.posts / name).as_uri(), "timestamp": 1, "batchId": number} for name in names]


@pytest.fixture
def checkpoint(tmp_path):
    return Checkpoint(tmp_path)


def names(checkpoint, batch):
    return [file.name for file in files_of_batch(checkpoint.path, batch)]


def test_a_batch_has_the_files_of_its_log_entries(checkpoint):
    checkpoint.add_batch(0, {"logOffset": 0})
    checkpoint.add_batch(1, {"logOffset": 2})
    checkpoint.write("sources/0/0", *checkpoint.entry(0, "a.jsonl", "ö %.jsonl"))
    checkpoint.write("sources/0/1", *checkpoint.entry(1, "b.jsonl"))
    checkpoint.write("sources/0/2", *checkpoint.entry(2, "c.jsonl"))
    assert names(checkpoint, 0) == ["a.jsonl", "ö %.jsonl"]
    assert names(checkpoint, 1) == ["b.jsonl", "c.jsonl"]


def test_of_a_compact_log_a_batch_has_only_its_own_files(checkpoint):
    checkpoint.add_batch(6, {"logOffset": 18})
    checkpoint.add_batch(7, {"logOffset": 19})
    checkpoint.write("sources/0/19.compact", *checkpoint.entry(18, "a.jsonl"), *checkpoint.entry(19, "b.jsonl"))
    assert names(checkpoint, 7) == ["b.jsonl"]


def test_a_kafka_batch_has_no_files(checkpoint):
    checkpoint.add_batch(0, {"topic": {"0": 5, "1": 7}})
    assert files_of_batch(checkpoint.path, 0) == []


def test_a_missing_file_is_reported_with_both_remedies(checkpoint):
    checkpoint.add_batch(0, {"logOffset": 0})
    checkpoint.write("sources/0/0", *checkpoint.entry(0, "a.jsonl", "b.jsonl"))
    (checkpoint.posts / "b.jsonl").unlink()
    with pytest.raises(InputError, match=r"posts of May/b\.jsonl.*Put it back.*remove .*/checkpoint"):
        check_files_exist(checkpoint.path, 0, files_of_batch(checkpoint.path, 0))


def test_a_batch_with_a_missing_file_is_not_committed(checkpoint, tmp_path, monkeypatch):
    for name in ("MatcherMetrics", "RoutingMetrics"):  # they need a Spark session
        monkeypatch.setattr(micro_batch, name, lambda: None)
    checkpoint.add_batch(0, {"logOffset": 0})
    checkpoint.write("sources/0/0", *checkpoint.entry(0, "a.jsonl"))
    (checkpoint.posts / "a.jsonl").unlink()
    with open_store(tmp_path) as store:
        updater = IndexUpdater(store, tmp_path / "index")
        runner = MicroBatchRunner(
            checkpoint.path, LiveIndex(updater, PlanRefresher(updater, store)), CommitQueue(store)
        )
        with pytest.raises(InputError, match=r"a\.jsonl"):
            runner(None, 0)
        assert [batch.state for batch in store.batches.recent()] == ["begun"]
        store.batches.commit_chunks("s", 0, [])
        runner(None, 0)  # committed: the file is not needed any more


def test_the_log_is_read_once_per_batch(checkpoint, tmp_path, monkeypatch):
    for name in ("MatcherMetrics", "RoutingMetrics"):
        monkeypatch.setattr(micro_batch, name, lambda: None)
    reads = []
    monkeypatch.setattr(micro_batch, "files_of_batch", lambda path, batch: reads.append(batch) or [])
    monkeypatch.setattr(MicroBatchRunner, "_match", lambda *_: 1 / 0)
    with open_store(tmp_path) as store:
        updater = IndexUpdater(store, tmp_path / "index")
        runner = MicroBatchRunner(
            checkpoint.path, LiveIndex(updater, PlanRefresher(updater, store)), CommitQueue(store)
        )
        with pytest.raises(ZeroDivisionError):
            runner(None, 3)
    assert reads == [3]


def test_a_missing_log_entry_is_reported_as_damage(checkpoint):
    checkpoint.add_batch(0, {"logOffset": 0})
    with pytest.raises(InputError, match=r"sources/0/0: .* missing or damaged"):
        files_of_batch(checkpoint.path, 0)


def test_the_open_batch_is_the_one_that_is_logged_and_not_committed(checkpoint):
    assert open_batch(checkpoint.path) is None
    checkpoint.add_batch(0, {"logOffset": 0})
    assert open_batch(checkpoint.path) == 0
    checkpoint.write("commits/0", {})
    assert open_batch(checkpoint.path) is None


def test_a_state_continues_only_with_the_source_it_began_with(checkpoint):
    check_source(checkpoint.path, None)
    check_source(checkpoint.path, "posts")
    checkpoint.add_batch(0, {"logOffset": 0})
    check_source(checkpoint.path, None)
    with pytest.raises(InputError, match=r"belongs to the posts of a directory\. Use one --state"):
        check_source(checkpoint.path, "posts")
    checkpoint.add_batch(1, {"posts": {"0": 7}})
    check_source(checkpoint.path, "posts")
    for other in (None, "news"):
        with pytest.raises(InputError, match=r"belongs to the posts of the Kafka topic posts\. Use"):
            check_source(checkpoint.path, other)
