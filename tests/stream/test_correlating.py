"""`tidings run --correlate`: windows are exact whatever is killed, and the matching does not notice."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.cli.runs import several
from tests.stream.running import Run, run_once, stored, subscribe

from tidings.watch.correlations import load_correlations

SLIDE, PANES, LATENESS = 10, 3, 4
OPTIONS = (
    "--correlate", "--window", f"{SLIDE * PANES} s", "--slide", f"{SLIDE} s", "--lateness", f"{LATENESS} s",
    "--partitions", "4", "--sn", "1", "--z", "50", "--threshold", "0.05", "--posts-a-partition", "60",
)  # fmt: skip


class Tagged:
    """A directory of files of tagged posts; the tags change with time, the load rises and falls."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.posts, self.files = folder, [], 0
        folder.mkdir()

    def put(self, count: int) -> None:
        rng = np.random.default_rng(self.files)
        for _ in range(count):
            size = 60 if self.files % 6 < 3 else 15
            rows = []
            for _ in range(size):
                tags = sorted({f"t{n}" for n in rng.zipf(1.6, rng.integers(1, 4)) % 9 + self.files // 3})
                rows.append((1_600_000_000 + self.files * 5 + int(rng.integers(0, 6)), tags))
            self.write(rows)

    def write(self, rows: list[tuple[int, list[str]]]) -> None:
        text = "".join(
            json.dumps({"id": len(self.posts) + n, "time": at, "text": " ".join(f"#{tag}" for tag in tags)}) + "\n"
            for n, (at, tags) in enumerate(rows)
        )
        self.posts += rows
        partial, path = self.folder / ".partial", self.folder / f"{self.files:05d}.jsonl"
        partial.write_text(text)
        moment = time.time() - 3600 + self.files  # Spark takes them in the order of their times
        os.utime(partial, (moment, moment))
        partial.rename(path)
        self.files += 1

    def windows(self) -> dict:
        """(window end, tags) -> (support, union) of all complete windows, by definition."""
        until = (max(at for at, _ in self.posts) - LATENESS) // SLIDE
        by_end: dict[int, list[set[str]]] = {}
        for at, tags in self.posts:
            for end in range(at // SLIDE + 1, at // SLIDE + PANES + 1):
                if end <= until:
                    by_end.setdefault(end, []).append(set(tags))
        return {
            (end * SLIDE, subset): counts
            for end, posts in by_end.items()
            for subset in {subset for post in posts for subset in _subsets(post)}
            if (counts := _counts(set(subset), posts))[0] >= 2
        }


def _subsets(post: set[str]) -> list[tuple[str, ...]]:
    return [some for size in range(2, len(post) + 1) for some in combinations(sorted(post), size)]


def _counts(tags: set[str], posts: list[set[str]]) -> tuple[int, int]:
    return sum(tags <= post for post in posts), sum(bool(tags & post) for post in posts)


def reported(state: Path) -> dict:
    rows = pq.read_table(state / "correlations" / "windows").to_pylist()
    found = {
        (int(row["window_end"].timestamp()), tuple(sorted(row["tags"]))): (row["support"], row["union"]) for row in rows
    }
    assert len(found) == len(rows), "a coefficient is there twice"
    return found


@pytest.fixture(scope="module")
def killed(tmp_path_factory) -> tuple[Path, Tagged]:
    """A stream that was killed in two places, and ran to its end then."""
    folder = tmp_path_factory.mktemp("correlating")
    state, feed = folder / "state", Tagged(folder / "in")
    feed.put(10)
    subscribe(state, "#t3 OR #t5")
    for point in ("before tracking@2", "after tracking@4"):
        run = run_once(feed.folder, state, *OPTIONS, crash=point)
        assert run.process.returncode == -signal.SIGKILL, f"{point} was not reached\n{run.err}"
    feed.write([(1_600_000_000, ["old", "late"])] * 3)
    feed.posts = feed.posts[:-3]
    run = run_once(feed.folder, state, *OPTIONS)
    assert run.process.returncode == 0, run.err
    return state, feed


def test_windows_are_exact_after_crashes(killed):
    state, feed = killed
    exact = feed.windows()
    assert len(exact) > 100
    assert reported(state) == exact


def test_late_posts_are_counted_and_partitions_change_as_it_runs(killed):
    figures = load_correlations(killed[0] / "correlations")
    assert figures is not None
    assert (figures.state, figures.late, figures.tagged) == ("stopped", 3, len(killed[1].posts) + 3)
    assert sum(figures.repartitions.values()) > 1
    assert figures.repartitions["scaling"]
    assert {"at_us", "reason", "partitions"} == set(figures.last_repartitions[-1])


def test_trends_related_and_status_read_the_state(killed):
    state, _ = killed
    commands = [
        ["trends", "--state", str(state), "--json"],
        ["related", "t5", "--state", str(state), "--json"],
        ["status", "--state", str(state), "--json"],
        ["status", "--state", str(state)],
        ["run", "--posts", str(state.parent / "in"), "--state", str(state), "--correlate", "--window", "1 min"],
    ]
    trends, related, status, shown, other = several(commands, state.parent)
    assert all(story["tag_sets"][0]["support"] >= 2 for story in trends.summary)
    assert all(one["jaccard"] <= 1 for one in related.summary)
    assert related.summary
    told = status.summary["correlations"]
    assert told["late"] == 3
    assert told["window_end_us"]
    assert "correlations" in shown.out
    assert (other.code, other.err.count("\n")) == (2, 1)
    assert "other settings" in other.err


def test_the_matching_goes_on_when_correlating_fails(killed):
    state, feed = killed
    before = stored(state)
    for file in (state / "correlations" / "checkpoint" / "offsets").iterdir():
        file.write_text("damaged")
    feed.put(1)
    run = run_once(feed.folder, state, *OPTIONS)
    assert run.process.returncode == 0, run.err
    assert "the matching goes on" in run.out
    assert len(stored(state)) > len(before)
    shutil.rmtree(state / "correlations")
    again = run_once(feed.folder, state, *OPTIONS, small=False)
    assert again.process.returncode == 0, again.err


@pytest.mark.long
def test_a_stream_that_is_stopped_and_killed_at_any_moment_reports_every_window_once(tmp_path):
    rng = np.random.default_rng(12)
    state, feed = tmp_path / "state", Tagged(tmp_path / "in")
    subscribe(state, "#t3")
    for number in range(8):
        feed.put(3)
        with Run(feed.folder, state, *OPTIONS) as run:
            run.until_taking()
            time.sleep(float(rng.uniform(0, 8)))
            run.stop() if number % 2 else run.kill()
    assert run_once(feed.folder, state, *OPTIONS).process.returncode == 0
    assert reported(state) == feed.windows()
