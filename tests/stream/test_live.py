"""A running stream: bursts, bad rows, changes of subscriptions, workers that die, being stopped and going on."""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.cli.runs import Result, tidings
from tests.stream.process import QUERIES, Feed, Pairs, Run, children, command_line, stored, subscribe, wanted

from tidings.store import open_store

BURST_FILES, BURST_POSTS = 50, 5
BIG_POSTS = 30_000
DAY_S = 86_400
LATER_QUERY = "zebra"
GOOD_ROW = b'{"id": 900009, "text": "nothing of note"}'
BAD_ROWS = [
    (b"not JSON at all", "the line cannot be read"),
    (b'{"id": 900001, "author": "somebody"}', "no text"),
    (b'{"id": 900002, "text": "storm \xff\xfe"}', "the line cannot be read"),
    (json.dumps({"id": 900003, "text": "storm " * 400_000}).encode(), "longer than"),
    (b'{"id": 900004, "text": "storm", "lat": 91, "lon": 0}', "lat is not between"),
    (b'{"id": 900005, "text": "storm", "lat": 9, "lon": "east"}', "lon is not a number"),
]


@dataclass
class Story:
    """What was seen while one stream ran, was stopped, and ran again."""

    state: Path
    feed: Feed
    waiting: list[int] = field(default_factory=list)
    files_of_batch: list[int] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    later: Pairs = field(default_factory=set)  # what the subscription that came and went must have
    later_found: Pairs = field(default_factory=set)
    status: dict = field(default_factory=dict)
    refused: Result | None = None
    first_pid: int = 0
    workers_killed: int = 0
    stopped_after_s: list[float] = field(default_factory=list)
    posts_of_second: int = 0


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    """Told once: two starts serve all claims."""
    folder = tmp_path_factory.mktemp("live")
    story = Story(folder / "state", Feed(folder / "in", posts_a_file=BURST_POSTS))
    subscribe(story.state, *QUERIES)
    story.feed.put(BURST_FILES)
    options = ("--max-posts-per-batch", str(5 * BURST_POSTS))
    with Run(story.feed.folder, story.state, *options, small=False) as run:
        _watch_the_burst(story, run)
        story.refused = tidings("run", "--posts", story.feed.folder, "--state", story.state)
        story.first_pid = run.process.pid
        _put_bad_rows(story, run)
        _change_subscriptions(story, run)
        _kill_workers(story, run)
        story.feed.put(2)
        story.stopped_after_s.append(run.stop(signal.SIGINT, whole_group=True))
    story.feed.put()
    story.feed.age_s = 60 * DAY_S  # moved here from elsewhere, with the time it has
    story.feed.put()
    with Run(story.feed.folder, story.state, *options, small=False) as run:
        run.until_posts(2 * BURST_POSTS)
        run.until(lambda: run.figures.pending_files == 0, "all is taken")
        story.posts_of_second = run.figures.posts
        story.stopped_after_s.append(run.stop(signal.SIGTERM))
    return story


def _watch_the_burst(story: Story, run: Run) -> None:
    def all_taken() -> bool:
        figures = run.figures
        if figures is not None and figures.pending_files is not None:
            story.waiting.append(figures.pending_files)
        return figures is not None and figures.posts >= BURST_FILES * BURST_POSTS

    run.until(all_taken, "the burst is taken")
    logs = sorted((story.state / "checkpoint" / "sources" / "0").glob("[0-9]*"), key=lambda log: int(log.name))
    story.files_of_batch = [len(log.read_text().splitlines()) - 1 for log in logs]


def _put_bad_rows(story: Story, run: Run) -> None:
    feed, before = story.feed, run.figures.posts
    feed.put_text("empty.jsonl", "")
    feed.put_text("bad.jsonl", b"\n".join([*(row for row, _ in BAD_ROWS), GOOD_ROW]))
    feed.put_text("csv.jsonl", "id,text\n1,storm\n")
    run.until_posts(before + len(BAD_ROWS) + 3)
    story.status = json.loads(tidings("status", "--json", "--state", story.state).out)


def _change_subscriptions(story: Story, run: Run) -> None:
    (later,) = subscribe(story.state, LATER_QUERY)
    story.versions.append(run.figures.index_version)
    story.later |= wanted(_put_and_wait(story, run), [LATER_QUERY], later)
    story.versions.append(run.figures.index_version)
    with open_store(story.state) as store:
        story.later_found = {(later, int(one.post_id)) for one in store.matches.since(later, limit=1000)}
        store.subscriptions.remove(later)
    assert wanted(_put_and_wait(story, run), [LATER_QUERY], later), "it would have matched again"
    with open_store(story.state) as store:
        story.later_found |= {(later, row[0]) for row in store.database.fetch(
            "SELECT CAST(p.id AS INTEGER) FROM match m JOIN post p ON p.number = m.post WHERE m.subscription = ?", later
        )}  # fmt: skip
    story.versions.append(run.figures.index_version)


def _put_and_wait(story: Story, run: Run) -> list[dict]:
    before = run.figures.posts
    rows = story.feed.put(change=lambda row: {**row, "text": row["text"] + " zebra"})
    run.until_posts(before + len(rows))
    return rows


def _kill_workers(story: Story, run: Run) -> None:
    """End all workers while a batch runs that takes a while."""
    story.feed.posts_a_file, before = BIG_POSTS, run.figures.posts
    with open_store(story.state) as store:
        story.feed.put(change=lambda row: {**row, "id": row["id"] + 10_000_000})
        story.feed.posts_a_file = BURST_POSTS
        run.until(lambda: store.batches.recent(limit=1)[0].state == "begun", "the batch begins")
        run.until(lambda: _workers(run), "it has workers")
        time.sleep(0.1)
        for worker in _workers(run):
            os.kill(worker, signal.SIGKILL)
            story.workers_killed += 1
        assert store.batches.recent(limit=1)[0].state == "begun", "they died in the middle of the batch"
    run.until_posts(before + BIG_POSTS)


def _workers(run: Run) -> list[int]:
    """Those that the daemon has forked: below it, with its command line."""
    daemons = [child for child in children(run.process.pid) if "tidings.spark.daemon" in command_line(child)]
    return [child for daemon in daemons for child in children(daemon)]


def test_in_a_burst_batches_stay_small(story):
    assert sum(story.files_of_batch) == BURST_FILES
    assert max(story.files_of_batch) <= 10
    assert len(story.files_of_batch) >= 5


def test_in_a_burst_the_waiting_files_are_told(story):
    assert any(0 < waiting < BURST_FILES for waiting in story.waiting)
    assert story.waiting == sorted(story.waiting, reverse=True)
    assert story.waiting[-1] == 0


def test_a_second_run_is_refused_and_names_the_first(story):
    assert story.refused.code == 2
    assert story.refused.err.count("\n") == 1
    assert f"process {story.first_pid}" in story.refused.err


def test_bad_rows_are_kept_aside_with_their_reason(story):
    with open_store(story.state) as store:
        kept = store.batches.rejected()
    for (_, reason), one in zip(BAD_ROWS, kept, strict=False):
        assert reason in one.reason
    assert [one.excerpt for one in kept[len(BAD_ROWS) :]] == ["id,text", "1,storm"]


def test_bad_rows_are_in_the_status(story):
    bad = len(BAD_ROWS) + 2  # and the two lines of CSV
    assert story.status["figures"]["rejected"] == bad
    assert story.status["stored"]["rejected"] == bad
    assert {"reason", "excerpt"} <= set(story.status["rejected"][0])
    assert story.status["condition"] == "running"


def test_the_load_of_the_matchers_is_in_the_status(story):
    (load,) = story.status["figures"]["matchers"]
    assert load["matcher"] == 0
    assert load["posts"] == story.status["figures"]["posts"]
    assert load["matches"] == story.status["figures"]["matches"]
    assert load["seconds"] > 0


def test_a_subscription_matches_from_the_next_batch_on_and_no_more_when_it_is_gone(story):
    assert story.later
    assert story.later_found == story.later
    assert story.versions == sorted(set(story.versions)), "each change made a new version"


def test_workers_that_die_in_a_batch_change_nothing(story):
    assert story.workers_killed


def test_asked_to_stop_it_ends_well_within_ten_seconds(story):
    assert len(story.stopped_after_s) == 2
    assert max(story.stopped_after_s) < 10


def test_a_second_run_goes_on_where_the_first_stopped(story):
    assert 2 * BURST_POSTS <= story.posts_of_second <= 4 * BURST_POSTS, "the file two months old is taken too"


def test_in_the_end_the_store_has_what_the_scan_finds(story):
    assert stored(story.state) == wanted(story.feed.rows, QUERIES)
