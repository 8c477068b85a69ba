"""No room left: the stream says so and stops, loses nothing that it had stored, and goes on when there is room."""

from __future__ import annotations

import shlex
import subprocess

import pytest
from tests.cli.runs import TIDINGS, environment
from tests.stream.process import QUERIES, SECONDS, Feed, stored, subscribe, wanted

from tidings.store import open_store

FILES, LONG = 8, " and so on and so forth" * 250
ROOM_BYTES = 3 << 20
NAMESPACE = ("unshare", "--user", "--map-root-user", "--mount")
STORY = """
set -eu
cp -a {state} {kept}
mount -t tmpfs -o size={room} none {state}
cp -a {kept}/. {state}
code=0; {run} >{kept}/out 2>{kept}/err || code=$?
echo $code >{kept}/code
cp -a {state} {kept}/full
mount -o remount,size=512m {state}
{run} >{kept}/out 2>{kept}/err2
cp -a {state} {kept}/after
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """A small disk of our own, filled by a stream, then made larger."""
    folder = tmp_path_factory.mktemp("full")
    if subprocess.run(
        [*NAMESPACE, "mount", "-t", "tmpfs", "none", folder], capture_output=True, check=False
    ).returncode:
        pytest.skip("this system lets no user mount a small disk of his own")
    feed, state, kept = Feed(folder / "in"), folder / "state", folder / "kept"
    feed.put(FILES, change=lambda row: {**row, "text": row["text"] + LONG + " zebra"})
    subscribe(state, *QUERIES, "zebra")
    options = ("--posts", feed.folder, "--state", state, "--once", "--max-posts-per-batch", 1)
    run = shlex.join(map(str, [*TIDINGS, "run", *options]))
    script = STORY.format(state=state, kept=kept, room=ROOM_BYTES, run=run)
    done = subprocess.run(
        [*NAMESPACE, "sh", "-c", script],
        env=environment(), capture_output=True, text=True, timeout=2 * SECONDS, check=False,
    )  # fmt: skip
    errors = "".join((kept / name).read_text() for name in ("err", "err2") if (kept / name).exists())
    assert done.returncode == 0, done.stderr + errors
    return feed, kept


def test_it_stops_with_the_reason(told):
    _, kept = told
    said = (kept / "err").read_text()
    assert ((kept / "code").read_text().strip(), said.count("\n")) == ("1", 1), said
    assert "room" in said or "space" in said


def test_nothing_that_was_stored_is_lost(told):
    feed, kept = told
    with open_store(kept / "full") as store:
        ledger = [one.state for one in store.batches.recent()]
    complete = ledger.count("done")
    assert 0 < complete < FILES
    assert stored(kept / "full") == wanted(feed.rows[: complete * feed.posts_a_file], [*QUERIES, "zebra"])


def test_it_goes_on_when_there_is_room(told):
    feed, kept = told
    assert stored(kept / "after") == wanted(feed.rows, [*QUERIES, "zebra"])
