"""`tidings run --correlate`: windows are exact although it was killed, and the matching does not notice."""

from __future__ import annotations

import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from tests.cli.runs import several
from tests.stream.running import Run, run_once, stored, subscribe
from tests.stream.tagged import LATENESS, PANES, SLIDE, Tagged, reported

from tidings.watch.correlations import load_correlations

pytestmark = pytest.mark.timeout(900)
OPTIONS = (
    "--correlate", "--window", f"{SLIDE * PANES} s", "--slide", f"{SLIDE} s", "--lateness", f"{LATENESS} s",
    "--partitions", "4", "--sn", "1", "--z", "50", "--threshold", "0.05", "--posts-a-partition", "60",
)  # fmt: skip


@pytest.fixture(scope="module")
def killed(tmp_path_factory) -> tuple[Path, Tagged]:
    """A stream that was killed after a batch was calculated and before it was noted; it ran to its end then."""
    folder = tmp_path_factory.mktemp("correlating")
    state, feed = folder / "state", Tagged(folder / "in")
    feed.put(7)
    subscribe(state, "#t3 OR #t5")
    run = run_once(feed.folder, state, *OPTIONS, crash="after tracking@4")
    assert run.process.returncode == -signal.SIGKILL, run.err
    feed.write([(1_600_000_000, ["old", "late"])] * 3)
    feed.posts = feed.posts[:-3]
    run = run_once(feed.folder, state, *OPTIONS)
    assert run.process.returncode == 0, run.err
    return state, feed


def test_windows_are_exact_after_a_crash(killed):
    state, feed = killed
    exact = feed.windows()
    assert len(exact) > 50
    assert reported(state / "correlations" / "windows") == exact


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
        ["related", "t2", "--state", str(state), "--json"],
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
    assert "the matching goes on" in " ".join(run.out.split())
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
    assert reported(state / "correlations" / "windows") == feed.windows()
