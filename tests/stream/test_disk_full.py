"""A full disk stops the stream with an error, loses no committed match, and the stream continues later."""

from __future__ import annotations

import re
import shlex
import subprocess

import pytest
from tests.cli.runs import TIDINGS, environment
from tests.stream.process import QUERIES, TIMEOUT_S, PostFeed, expected_matches, stored_matches, subscribe

from tidings.cli.options.state import locate_state
from tidings.cli.status import read_status
from tidings.spark.run_files import FOLDER
from tidings.store import open_store
from tidings.stream.metrics.health import Condition

FILES, LONG_TEXT = 8, " and so on and so forth" * 250
DISK_BYTES = 3 << 20  # 1 MB is used before the first batch, and a batch adds half a megabyte
EVENT = re.compile(r"\d\d:\d\d:\d\d ")  # a line of the log
NAMESPACE = ("unshare", "--user", "--map-root-user", "--mount")
SCRIPT = """
set -eu
cp -a {state} {copies}
mount -t tmpfs -o size={size} none {state}
cp -a {copies}/. {state}
mkdir -m 700 {state}/{temporary}
mount -t tmpfs none {state}/{temporary}
code=0; {run} >{copies}/out 2>{copies}/err || code=$?
echo $code >{copies}/code
cp -a {state} {copies}/full
mount -o remount,size=512m {state}
{run} >{copies}/out 2>{copies}/err2
cp -a {state} {copies}/after
"""


@pytest.fixture(scope="module")
def finished_stream(tmp_path_factory):
    """Run a stream on a small disk until it is full, then enlarge the disk and run it again.

    Spark's log and temporary files, whose size depends on its version, are on another disk.
    """
    folder = tmp_path_factory.mktemp("full")
    if subprocess.run(
        [*NAMESPACE, "mount", "-t", "tmpfs", "none", folder], capture_output=True, check=False
    ).returncode:
        pytest.skip("unprivileged users cannot mount a tmpfs on this system")
    feed, state, copies = PostFeed(folder / "in"), folder / "state", folder / "copies"
    feed.add_files(FILES, change=lambda row: {**row, "text": row["text"] + LONG_TEXT + " zebra"})
    subscribe(state, *QUERIES, "zebra")
    options = ("--posts", feed.folder, "--state", state, "--once", "--max-posts-per-batch", 1)
    run = shlex.join(map(str, [*TIDINGS, "run", *options]))
    script = SCRIPT.format(state=state, copies=copies, size=DISK_BYTES, temporary=FOLDER, run=run)
    done = subprocess.run(
        [*NAMESPACE, "sh", "-c", script],
        env=environment(), capture_output=True, text=True, timeout=2 * TIMEOUT_S, check=False,
    )  # fmt: skip
    errors = "".join((copies / name).read_text() for name in ("err", "err2") if (copies / name).exists())
    assert done.returncode == 0, done.stderr + errors
    return feed, copies


def test_the_stream_ends_with_one_error_that_names_the_reason(finished_stream):
    _, copies = finished_stream
    lines = (copies / "err").read_text().splitlines()
    errors = [line for line in lines if not EVENT.match(line)]
    assert ((copies / "code").read_text().strip(), len(errors)) == ("1", 1), lines
    assert "space" in errors[0]


def test_the_status_shows_the_reason_while_the_disk_is_full(finished_stream):
    _, copies = finished_stream
    status = read_status(locate_state(str(copies / "full")))
    assert status.health.condition == Condition.failed
    assert "space" in status.health.sentence


def test_no_committed_match_is_lost(finished_stream):
    feed, copies = finished_stream
    with open_store(copies / "full") as store:
        ledger = [batch.state for batch in store.batches.recent()]
    complete = ledger.count("done")
    assert 0 < complete < FILES
    assert stored_matches(copies / "full") == expected_matches(
        feed.rows[: complete * feed.posts_per_file], [*QUERIES, "zebra"]
    )


def test_the_stream_continues_on_a_larger_disk(finished_stream):
    feed, copies = finished_stream
    assert stored_matches(copies / "after") == expected_matches(feed.rows, [*QUERIES, "zebra"])
