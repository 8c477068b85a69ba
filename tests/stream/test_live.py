"""A real stream in a process: bursts, rejected rows, changed subscriptions, killed workers, stop and continue."""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.cli.runs import CommandResult, run_command
from tests.stream.process import (
    QUERIES,
    Pairs,
    PostFeed,
    StreamProcess,
    expected_matches,
    stored_matches,
    subscribe,
)

from tidings.store import open_store
from tidings.testing.processes import find_processes

BURST_FILES, BURST_POSTS = 50, 5
BIG_POSTS = 30_000
DAY_S = 86_400
LATER_QUERY = "zebra"
GOOD_ROW = b'{"id": 900009, "text": "nothing of note"}'
BAD_ROWS = [
    (b"not JSON at all", "the line cannot be read"),
    (b'{"id": 900001, "author": "somebody"}', "the text is missing"),
    (b'{"id": 900002, "text": "storm \xff\xfe"}', "the line cannot be read"),
    (json.dumps({"id": 900003, "text": "storm " * 400_000}).encode(), "longer than"),
    (b'{"id": 900004, "text": "storm", "lat": 91, "lon": 0}', "lat is not between"),
    (b'{"id": 900005, "text": "storm", "lat": 9, "lon": "east"}', "lon is not a number"),
]


@dataclass
class Story:
    """What was observed while a stream ran, was stopped, and ran again."""

    state: Path
    feed: PostFeed
    pending: list[int] = field(default_factory=list)
    files_of_batch: list[int] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    later: Pairs = field(default_factory=set)  # of the subscription that is added and removed
    later_stored: Pairs = field(default_factory=set)
    status: dict = field(default_factory=dict)
    rejected_run: CommandResult | None = None
    first_pid: int = 0
    workers_killed: int = 0
    stop_seconds: list[float] = field(default_factory=list)
    second_run_posts: int = 0


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    """Run the stream twice; all tests of this file use the observations."""
    folder = tmp_path_factory.mktemp("live")
    story = Story(folder / "state", PostFeed(folder / "in", posts_per_file=BURST_POSTS))
    subscribe(story.state, *QUERIES)
    story.feed.add_files(BURST_FILES)
    options = ("--max-posts-per-batch", str(5 * BURST_POSTS))
    with StreamProcess(story.feed.folder, story.state, *options, one_file_per_batch=False) as run:
        _observe_burst(story, run)
        story.rejected_run = run_command("run", "--posts", story.feed.folder, "--state", story.state)
        story.first_pid = run.process.pid
        _add_bad_rows(story, run)
        _change_subscriptions(story, run)
        _kill_workers(story, run)
        story.feed.add_files(2)
        story.stop_seconds.append(run.stop(signal.SIGINT, whole_group=True))
    story.feed.add_files()
    story.feed.age_s = 60 * DAY_S  # a moved file keeps its old time
    story.feed.add_files()
    with StreamProcess(story.feed.folder, story.state, *options, one_file_per_batch=False) as run:
        run.wait_for_posts(2 * BURST_POSTS)
        run.wait_for(lambda: run.snapshot.pending_files == 0, "all files are read")
        story.second_run_posts = run.snapshot.posts
        story.stop_seconds.append(run.stop(signal.SIGTERM))
    return story


def _observe_burst(story: Story, run: StreamProcess) -> None:
    def is_read() -> bool:
        snapshot = run.snapshot
        if snapshot is not None and snapshot.pending_files is not None:
            story.pending.append(snapshot.pending_files)
        return snapshot is not None and snapshot.posts >= BURST_FILES * BURST_POSTS

    run.wait_for(is_read, "the burst is read")
    logs = sorted((story.state / "checkpoint" / "sources" / "0").glob("[0-9]*"), key=lambda log: int(log.name))
    story.files_of_batch = [len(log.read_text().splitlines()) - 1 for log in logs]


def _add_bad_rows(story: Story, run: StreamProcess) -> None:
    feed, before = story.feed, run.snapshot.posts
    feed.add_text("empty.jsonl", "")
    feed.add_text("bad.jsonl", b"\n".join([*(row for row, _ in BAD_ROWS), GOOD_ROW]))
    feed.add_text("csv.jsonl", "id,text\n1,storm\n")
    run.wait_for_posts(before + len(BAD_ROWS) + 3)
    story.status = json.loads(run_command("status", "--json", "--state", story.state).out)


def _change_subscriptions(story: Story, run: StreamProcess) -> None:
    (later,) = subscribe(story.state, LATER_QUERY)
    story.versions.append(run.snapshot.index_version)
    story.later |= expected_matches(_add_file_and_wait(story, run), [LATER_QUERY], later)
    story.versions.append(run.snapshot.index_version)
    with open_store(story.state) as store:
        story.later_stored = {(later, int(row.post_id)) for row in store.matches.since(later, limit=1000)}
        store.subscriptions.remove(later)
    assert expected_matches(_add_file_and_wait(story, run), [LATER_QUERY], later), "it would match"
    with open_store(story.state) as store:
        story.later_stored |= {(later, row[0]) for row in store.database.fetch(
            "SELECT CAST(p.id AS INTEGER) FROM match m JOIN post p ON p.number = m.post WHERE m.subscription = ?", later
        )}  # fmt: skip
    story.versions.append(run.snapshot.index_version)


def _add_file_and_wait(story: Story, run: StreamProcess) -> list[dict]:
    before = run.snapshot.posts
    rows = story.feed.add_files(change=lambda row: {**row, "text": row["text"] + " zebra"})
    run.wait_for_posts(before + len(rows))
    return rows


def _kill_workers(story: Story, run: StreamProcess) -> None:
    """Kill all Python workers during a long batch."""
    story.feed.posts_per_file, before = BIG_POSTS, run.snapshot.posts
    with open_store(story.state) as store:
        story.feed.add_files(change=lambda row: {**row, "id": row["id"] + 10_000_000})
        story.feed.posts_per_file = BURST_POSTS
        run.wait_for(lambda: store.batches.recent(limit=1)[0].state == "begun", "the batch begins")
        run.wait_for(lambda: _workers(run), "Python workers run")
        time.sleep(0.1)
        for worker in _workers(run):
            os.kill(worker, signal.SIGKILL)
            story.workers_killed += 1
        assert store.batches.recent(limit=1)[0].state == "begun", "they were killed during the batch"
    run.wait_for_posts(before + BIG_POSTS)


def _workers(run: StreamProcess) -> list[int]:
    """Return the Python workers that the daemon has forked."""
    return find_processes(run.process.pid, "worker")


def test_batches_stay_small_in_a_burst(story):
    assert sum(story.files_of_batch) == BURST_FILES
    assert max(story.files_of_batch) <= 10
    assert len(story.files_of_batch) >= 5


def test_pending_files_are_reported_in_a_burst(story):
    assert any(0 < pending < BURST_FILES for pending in story.pending)
    assert story.pending == sorted(story.pending, reverse=True)
    assert story.pending[-1] == 0


def test_a_second_run_is_rejected_and_names_the_first(story):
    assert story.rejected_run.code == 2
    assert story.rejected_run.err.count("\n") == 1
    assert f"process {story.first_pid}" in story.rejected_run.err


def test_rejected_rows_are_stored_with_their_reason(story):
    with open_store(story.state) as store:
        rejected = store.batches.rejected_rows()
    for (_, reason), row in zip(BAD_ROWS, rejected, strict=False):
        assert reason in row.reason
        assert row.source == str(story.feed.folder / "bad.jsonl")
    assert [row.excerpt for row in rejected[len(BAD_ROWS) :]] == ["id,text", "1,storm"]


def test_the_status_shows_rejected_rows(story):
    bad = len(BAD_ROWS) + 2  # and the two lines of CSV
    assert story.status["metrics"]["rejected"] == bad
    assert story.status["stored"]["rejected"] == bad
    last = story.status["rejected"][-1]
    assert (last["source"], last["source_row"]) == (str(story.feed.folder / "csv.jsonl"), 2)
    assert story.status["condition"] == "running"


def test_the_status_shows_the_load_of_the_matcher(story):
    (load,) = story.status["metrics"]["matchers"]
    assert load["matcher"] == 0
    assert load["posts"] == story.status["metrics"]["posts"]
    assert load["matches"] == story.status["metrics"]["matches"]
    assert load["seconds"] > 0


def test_a_subscription_matches_from_the_next_batch_until_it_is_removed(story):
    assert story.later
    assert story.later_stored == story.later
    assert story.versions == sorted(set(story.versions)), "each change is a new version"


def test_killed_workers_do_not_change_the_matches(story):
    assert story.workers_killed


def test_a_signal_stops_the_stream_within_ten_seconds(story):
    assert len(story.stop_seconds) == 2
    assert max(story.stop_seconds) < 10


def test_a_second_run_continues_where_the_first_stopped(story):
    assert 2 * BURST_POSTS <= story.second_run_posts <= 4 * BURST_POSTS, "the file two months old is read too"


def test_only_the_user_of_the_stream_can_read_its_state(story):
    """Also the files that Spark and the workers wrote."""
    paths = [story.state, *story.state.rglob("*")]
    assert any(path.parent.name == "offsets" for path in paths)
    assert [path for path in paths if path.stat().st_mode & 0o077] == []


def test_the_stored_matches_are_exact(story):
    assert stored_matches(story.state) == expected_matches(story.feed.rows, QUERIES)
