"""`tidings run --correlate`: windows are exact although it was killed, and the matching does not notice."""

from __future__ import annotations

import shutil
import signal
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from tests.cli.runs import Result, run_commands
from tests.stream.process import Run, run_once, stored, subscribe
from tests.stream.tagged import LATENESS, PANES, SLIDE, Tagged, reported

from tidings.stream.metrics.correlations import load_correlation_metrics

pytestmark = pytest.mark.timeout(1_800)
OPTIONS = (
    "--correlate", "--window", f"{SLIDE * PANES} s", "--slide", f"{SLIDE} s", "--lateness", f"{LATENESS} s",
    "--partitions", "4", "--sn", "1", "--z", "50", "--threshold", "0.05", "--posts-a-partition", "60",
)  # fmt: skip


LATE = [(1_600_000_000, ["old", "late"])] * 3


class Scene(NamedTuple):
    """A state, its posts, and what commands said of it afterwards."""

    state: Path
    feed: Tagged
    exact: dict
    tagged: int
    matches: int
    told: dict[str, Result]


@pytest.fixture(scope="module")
def scene(tmp_path_factory) -> Scene:
    """A stream that was killed after a batch was calculated and before it was noted, and ran to its end then.

    Later it goes on with a damaged checkpoint of the correlations, and begins them anew: all in one JVM.
    """
    folder = tmp_path_factory.mktemp("correlating")
    state, feed = folder / "state", Tagged(folder / "in")
    feed.put(4, moments=2)
    exact = feed.windows()
    subscribe(state, "#t3 OR #t5")
    run = run_once(feed.folder, state, *OPTIONS, crash="after tracking@1")
    assert run.process.returncode == -signal.SIGKILL, run.err
    feed.write(LATE)
    run = run_once(feed.folder, state, *OPTIONS)
    assert run.process.returncode == 0, run.err
    tagged, matches = len(feed.posts), len(stored(state))
    return Scene(state, feed, exact, tagged, matches, _afterwards(folder, state, feed))


def _afterwards(folder: Path, state: Path, feed: Tagged) -> dict[str, Result]:
    damaged, anew = (Path(shutil.copytree(state, folder / name)) for name in ("damaged", "anew"))
    for file in (damaged / "correlations" / "checkpoint" / "offsets").iterdir():
        file.write_text("damaged")
    shutil.rmtree(anew / "correlations")
    feed.put(1)
    run = ["run", "--posts", str(feed.folder), "--once", *OPTIONS]
    commands = {
        "trends": ["trends", "--state", str(state), "--json"],
        "related": ["related", "t2", "--state", str(state), "--json"],
        "status": ["status", "--state", str(state), "--json"],
        "shown": ["status", "--state", str(state)],
        "other": ["run", "--posts", str(feed.folder), "--state", str(state), "--correlate", "--window", "1 min"],
        "damaged": [*run, "--state", str(damaged)],
        "anew": [*run, "--state", str(anew), "--processed", "delete"],
    }
    return dict(zip(commands, run_commands(list(commands.values()), folder), strict=True))


def test_windows_are_exact_after_a_crash(scene):
    assert len(scene.exact) > 50
    assert reported(scene.state / "correlations" / "windows") == scene.exact


def test_late_posts_are_counted_and_partitions_change_as_it_runs(scene):
    figures = load_correlation_metrics(scene.state / "correlations")
    assert figures is not None
    assert (figures.state, figures.late, figures.tagged) == ("stopped", 3, scene.tagged)
    assert sum(figures.repartitions.values()) > 1
    assert figures.repartitions["scaling"]
    assert {"at_us", "reason", "partitions"} == set(figures.last_repartitions[-1])


def test_trends_related_and_status_read_the_state(scene):
    trends, related, status = (scene.told[name].summary for name in ("trends", "related", "status"))
    assert all(story["tag_sets"][0]["support"] >= 2 for story in trends)
    assert all(one["jaccard"] <= 1 for one in related)
    assert related
    assert status["correlations"]["late"] == 3
    assert status["correlations"]["window_end_us"]
    assert "correlations" in scene.told["shown"].out


def test_other_settings_are_refused(scene):
    other = scene.told["other"]
    assert (other.code, other.err.count("\n")) == (2, 1)
    assert "other settings" in other.err


def test_the_matching_goes_on_when_correlating_fails(scene):
    run = scene.told["damaged"]
    assert run.code == 0, run.err
    assert "the matching goes on" in " ".join(run.out.split())
    assert len(stored(scene.state.parent / "damaged")) > scene.matches


def test_correlations_that_begin_anew_read_all_and_files_go_when_both_queries_are_done(scene):
    run = scene.told["anew"]
    assert run.code == 0, run.err
    assert reported(scene.state.parent / "anew" / "correlations" / "windows") == scene.feed.windows()
    assert list(scene.feed.folder.glob("*.jsonl")) == []


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
