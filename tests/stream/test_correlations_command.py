"""`tidings run --correlate`: windows are exact after a crash, and the matching does not depend on them."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from tests.cli.runs import CommandResult, run_here
from tests.stream.process import StreamProcess, run_once, run_to_kill, stored_matches, subscribe
from tests.stream.tagged import LATENESS, PANES, SLIDE, TaggedFeed, reported_windows

from tidings.correlate.settings import CorrelationSettings, StreamCorrelationSettings
from tidings.failpoints import CORRELATION_FAILPOINTS, arm
from tidings.stream.metrics.correlations import load_correlation_metrics
from tidings.testing.stream import StreamHarness

pytestmark = pytest.mark.timeout(1_800)
OPTIONS = (
    "--correlate", "--window", f"{SLIDE * PANES} s", "--slide", f"{SLIDE} s", "--lateness", f"{LATENESS} s",
    "--partitions", "4", "--min-sightings", "1", "--check-every", "50", "--threshold", "0.05",
    "--posts-per-partition", "60",
)  # fmt: skip
SETTINGS = StreamCorrelationSettings(
    CorrelationSettings.parse(
        f"{SLIDE * PANES} s",
        f"{SLIDE} s",
        partitions=4,
        min_sightings=1,
        check_every=50,
        threshold=0.05,
        posts_per_partition=60,
    ),
    LATENESS * 1_000_000,
)
OTHER_FAILPOINTS = [name for name in CORRELATION_FAILPOINTS if name != "before-track"]
LATE_POSTS = [(1_600_000_000, ["old", "late"])] * 3


class Story(NamedTuple):
    """A state, its posts, and what commands print about it."""

    state: Path
    feed: TaggedFeed
    exact: dict
    tagged: int
    matches: int
    results: dict[str, CommandResult]


@pytest.fixture(scope="module")
def story(spark, tmp_path_factory) -> Story:
    """A process is killed when a batch is tracked and not committed; another run ends it."""
    folder = tmp_path_factory.mktemp("correlations")
    state, feed = folder / "state", TaggedFeed(folder / "in")
    feed.add_files(4, moments=2)
    exact = feed.windows()
    subscribe(state, "#t3 OR #t5")
    run_to_kill(feed.folder, state, "after-track@1", *OPTIONS)
    feed.write(LATE_POSTS)
    StreamHarness(spark, feed.folder, state, correlate=SETTINGS).run()
    other = ["run", "--posts", str(feed.folder), "--state", str(state), "--correlate", "--window", "1 min"]
    commands = {
        "trends": ["trends", "--state", str(state), "--json"],
        "related": ["related", "t2", "--state", str(state), "--json"],
        "status": ["status", "--state", str(state), "--json"],
        "status table": ["status", "--state", str(state)],
        "other settings": other,
    }
    results = dict(zip(commands, run_here(list(commands.values()), folder), strict=True))
    return Story(state, feed, exact, len(feed.posts), len(stored_matches(state)), results)


def test_windows_are_exact_after_a_kill(story):
    assert len(story.exact) > 50
    assert reported_windows(story.state / "correlations" / "windows") == story.exact


def test_late_posts_are_counted_and_partitions_change(story):
    metrics = load_correlation_metrics(story.state / "correlations")
    assert metrics is not None
    assert (metrics.state, metrics.late, metrics.tagged) == ("stopped", 3, story.tagged)
    assert sum(metrics.repartitions.values()) > 1
    assert metrics.repartitions["scaling"]
    assert {"at_us", "reason", "partitions"} == set(metrics.last_repartitions[-1])


def test_trends_related_and_status_read_the_state(story):
    trends, related, status = (story.results[name].summary for name in ("trends", "related", "status"))
    assert all(trend["tag_sets"][0]["support"] >= 2 for trend in trends)
    assert all(pair["jaccard"] <= 1 for pair in related)
    assert related
    assert status["correlations"]["late"] == 3
    assert status["correlations"]["window_end_us"]
    assert "correlations" in story.results["status table"].out


def test_other_settings_are_rejected(story):
    result = story.results["other settings"]
    assert (result.code, result.err.count("\n")) == (2, 1), result.err
    assert "settings" in result.err


@pytest.mark.parametrize(
    "failpoint", ["before-track", *(pytest.param(name, marks=pytest.mark.long) for name in OTHER_FAILPOINTS)]
)
def test_an_error_of_the_correlations_does_not_stop_the_matching(spark, tmp_path, failpoint):
    state, feed = tmp_path / "state", TaggedFeed(tmp_path / "in")
    feed.add_files(3, moments=2)
    subscribe(state, "#t3 OR #t5")
    harness = StreamHarness(spark, feed.folder, state, correlate=SETTINGS)
    with arm(failpoint, 1) as point:
        snapshot = harness.run()
    assert point.is_reached
    assert snapshot.posts == len(feed.posts)
    metrics = load_correlation_metrics(state / "correlations")
    assert metrics.state == "failed"
    assert "Matching continues" in metrics.failure
    harness.run()
    assert reported_windows(state / "correlations" / "windows") == feed.windows()


def test_a_damaged_checkpoint_of_the_correlations_does_not_stop_the_matching(spark, story, tmp_path):
    feed, state = story.feed, Path(shutil.copytree(story.state, tmp_path / "state"))
    for file in (state / "correlations" / "checkpoint" / "offsets").iterdir():
        file.write_text("damaged")
    feed.add_files(1)
    StreamHarness(spark, feed.folder, state, correlate=SETTINGS).run()
    assert load_correlation_metrics(state / "correlations").state == "failed"
    assert len(stored_matches(state)) > story.matches


def test_new_correlations_read_all_posts_and_shared_files_are_deleted_at_the_end(spark, story, tmp_path):
    feed, state = story.feed, Path(shutil.copytree(story.state, tmp_path / "state"))
    shutil.rmtree(state / "correlations")
    options = {"max_posts_per_batch": 1_000_000, "clean_source": "delete"}  # in one batch no post is late
    StreamHarness(spark, feed.folder, state, correlate=SETTINGS, **options).run()
    assert reported_windows(state / "correlations" / "windows") == feed.windows()
    assert list(feed.folder.glob("*.jsonl")) == []


@pytest.mark.long
def test_a_process_stopped_and_killed_at_random_reports_every_window_once(tmp_path):
    rng = np.random.default_rng(12)
    state, feed = tmp_path / "state", TaggedFeed(tmp_path / "in")
    subscribe(state, "#t3")
    for number in range(8):
        feed.add_files(3)
        with StreamProcess(feed.folder, state, *OPTIONS) as process:
            process.wait_until_started()
            time.sleep(float(rng.uniform(0, 8)))
            process.stop() if number % 2 else process.kill()
    assert run_once(feed.folder, state, *OPTIONS).process.returncode == 0
    assert reported_windows(state / "correlations" / "windows") == feed.windows()
