"""A damaged or missing file is reported with a remedy that loses and repeats no match."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.cli.runs import run_here
from tests.stream.process import QUERIES, PostFeed, expected_matches, stored_matches, subscribe

from tidings.cli.options.state import locate_state
from tidings.cli.status import read_status
from tidings.errors import InputError
from tidings.stream.metrics.health import Condition
from tidings.testing.stream import StreamHarness

BATCHES = 4


def garble(path: Path) -> None:
    path.write_bytes(b"\x00garbage" * 9)


def shorten(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def first_file(folder: Path, pattern: str) -> Path:
    return next(folder.glob(pattern))


DAMAGES = {
    "garbage in the metadata": ("checkpoint/metadata", garble),
    "no metadata": ("checkpoint/metadata", Path.unlink),
    "garbage in the last offsets": ("checkpoint/offsets/2", garble),
    "truncated last offsets": ("checkpoint/offsets/2", shorten),
    "no last offsets": ("checkpoint/offsets/2", Path.unlink),
    "no offsets": ("checkpoint/offsets", shutil.rmtree),
    "garbage in the last commit": ("checkpoint/commits/1", garble),
    "garbage in the last file log": ("checkpoint/sources/0/2", garble),
    "no last file log": ("checkpoint/sources/0/2", Path.unlink),
    "a truncated index file": ("index/segment-*/ids.arrow", shorten),
    "a missing index file": ("index/segment-*/ids.arrow", Path.unlink),
    "garbage in the manifest": ("index/manifest-*.json", garble),
    "garbage in the store": ("tidings.sqlite", garble),
}


@pytest.fixture(scope="module")
def crashed_stream(spark, tmp_path_factory):
    """A stream that crashed in its third batch."""
    folder = tmp_path_factory.mktemp("damage")
    feed, state = PostFeed(folder / "in"), folder / "state"
    feed.add_files(BATCHES)
    subscribe(state, *QUERIES)
    StreamHarness(spark, feed.folder, state).crash("before-commit", 2)
    return feed, state


@pytest.fixture(scope="module")
def results(crashed_stream, tmp_path_factory):
    """The output of `tidings run` for each damage, all in one process: none starts Spark."""
    feed, state = crashed_stream
    folder = tmp_path_factory.mktemp("copies")
    damaged, commands = {}, []
    for number, (name, (pattern, damage)) in enumerate(DAMAGES.items()):
        copy = shutil.copytree(state, folder / str(number))
        damaged[name] = first_file(copy, pattern)
        damage(damaged[name])
        commands.append(["run", "--posts", str(feed.folder), "--state", str(copy), "--once"])
    return dict(zip(damaged, zip(damaged.values(), run_here(commands, folder), strict=True), strict=True))


@pytest.mark.parametrize("name", DAMAGES)
def test_one_sentence_names_the_damaged_file_and_the_remedy(results, name):
    path, result = results[name]
    assert (result.code, result.err.count("\n")) == (2, 1), result.err
    assert str(path) in result.err
    assert "remove" in result.err.lower() or "restore" in result.err.lower()


@pytest.mark.parametrize("name", [name for name in DAMAGES if name != "garbage in the store"])
def test_the_status_shows_why_the_stream_did_not_start(results, name):
    path, result = results[name]
    status = read_status(locate_state(str(next(folder for folder in path.parents if (folder / "phase.json").exists()))))
    assert status.health.condition == Condition.failed
    assert result.err.strip().removeprefix("tidings: ") in status.health.sentence


def test_without_its_checkpoint_a_stream_reads_all_posts_and_repeats_no_match(spark, crashed_stream, tmp_path):
    feed, state = crashed_stream
    copy = shutil.copytree(state, tmp_path / "state")
    shutil.rmtree(copy / "checkpoint")
    before = stored_matches(copy)
    assert before
    StreamHarness(spark, feed.folder, copy).run()
    assert before < stored_matches(copy)
    assert stored_matches(copy) == expected_matches(feed.rows, QUERIES)


def test_a_batch_whose_index_version_is_lost_needs_permission_to_use_another(spark, crashed_stream, tmp_path):
    feed, state = crashed_stream
    copy = shutil.copytree(state, tmp_path / "state")
    first_file(copy, "index/manifest-*.json").unlink()
    (later,) = subscribe(copy, "storm OR flood OR fire")
    harness = StreamHarness(spark, feed.folder, copy)
    with pytest.raises(InputError, match=r"manifest-00000001\.json.*--repin-lost-versions"):
        harness.run()
    harness.run(repin_lost_versions=True)
    since = feed.rows[2 * feed.posts_per_file :]
    later_matches = expected_matches(since, ["storm OR flood OR fire"], later)
    assert stored_matches(copy) == expected_matches(feed.rows, QUERIES) | later_matches


def test_a_missing_post_file_of_a_replayed_batch_is_reported(crashed_stream, tmp_path):
    feed, state = crashed_stream
    file = feed.folder / "00002.jsonl"
    moved = file.rename(tmp_path / file.name)
    try:
        command = ["run", "--posts", feed.folder, "--state", state, "--once"]  # ends before Spark starts
        (result,) = run_here([command], tmp_path)
    finally:
        moved.rename(file)
    assert (result.code, result.err.count("\n")) == (2, 1), result.err
    assert f"{file}: this file of batch 2 is missing and was not matched yet. Put it back" in result.err
    assert f"remove {state / 'checkpoint'}" in result.err
