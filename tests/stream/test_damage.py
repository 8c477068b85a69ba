"""What is damaged or gone is named with the way out; following it, no match is lost and none comes twice."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest
from tests.cli.runs import run_commands
from tests.stream.process import QUERIES, Feed, done, run_once, stored, subscribe, wanted

BATCHES = 4


def garble(path: Path) -> None:
    path.write_bytes(b"\x00garbage" * 9)


def shorten(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def only(folder: Path, pattern: str) -> Path:
    return next(folder.glob(pattern))


DAMAGES = {
    "the name of the stream is garbage": ("checkpoint/metadata", garble),
    "the name of the stream is gone": ("checkpoint/metadata", Path.unlink),
    "the last offsets are garbage": ("checkpoint/offsets/2", garble),
    "the last offsets are cut short": ("checkpoint/offsets/2", shorten),
    "the last offsets are gone": ("checkpoint/offsets/2", Path.unlink),
    "all offsets are gone": ("checkpoint/offsets", shutil.rmtree),
    "the last commit is garbage": ("checkpoint/commits/1", garble),
    "the files of the last batch are garbage": ("checkpoint/sources/0/2", garble),
    "the files of the last batch are gone": ("checkpoint/sources/0/2", Path.unlink),
    "a file of the index is cut short": ("index/segment-*/ids.arrow", shorten),
    "a file of the index is gone": ("index/segment-*/ids.arrow", Path.unlink),
    "the manifest is garbage": ("index/manifest-*.json", garble),
    "the store is garbage": ("tidings.sqlite", garble),
}


@pytest.fixture(scope="module")
def crashed(tmp_path_factory):
    """A stream killed in its third batch, with a subscription that came after."""
    folder = tmp_path_factory.mktemp("damage")
    feed, state = Feed(folder / "in"), folder / "state"
    feed.put(BATCHES)
    subscribe(state, *QUERIES)
    run = run_once(feed.folder, state, crash="before committing@2")
    assert run.process.returncode == -signal.SIGKILL, run.err
    return feed, state


@pytest.fixture(scope="module")
def told(crashed, tmp_path_factory):
    """How `tidings run` answers each damage, all in one process: none gets as far as starting Spark."""
    feed, state = crashed
    folder = tmp_path_factory.mktemp("copies")
    damaged, commands = {}, []
    for number, (name, (pattern, damage)) in enumerate(DAMAGES.items()):
        copy = shutil.copytree(state, folder / str(number))
        damaged[name] = only(copy, pattern)
        damage(damaged[name])
        commands.append(["run", "--posts", str(feed.folder), "--state", str(copy), "--once"])
    return dict(zip(damaged, zip(damaged.values(), run_commands(commands, folder), strict=True), strict=True))


@pytest.mark.parametrize("name", DAMAGES)
def test_one_sentence_names_what_is_damaged_and_the_way_out(told, name):
    path, result = told[name]
    assert (result.code, result.err.count("\n")) == (2, 1), result.err
    assert str(path) in result.err
    assert "remove" in result.err or "restore" in result.err


def test_without_its_checkpoint_all_is_read_again_and_no_match_comes_twice(crashed, tmp_path):
    feed, state = crashed
    copy = shutil.copytree(state, tmp_path / "state")
    shutil.rmtree(copy / "checkpoint")
    before = stored(copy)
    assert before
    done(copy, feed=feed.folder)
    assert before < stored(copy)
    assert stored(copy) == wanted(feed.rows, QUERIES)


def test_a_batch_whose_index_version_is_lost_waits_for_leave_to_use_another(crashed, tmp_path):
    feed, state = crashed
    copy = shutil.copytree(state, tmp_path / "state")
    only(copy, "index/manifest-*.json").unlink()
    (later,) = subscribe(copy, "storm OR flood OR fire")
    run = run_once(feed.folder, copy)
    assert (run.process.returncode, run.err.count("\n")) == (2, 1), run.err
    assert "manifest-00000001.json" in run.err
    assert "--pin-anew" in run.err
    done(copy, "--pin-anew", feed=feed.folder)
    since = feed.rows[2 * feed.posts_a_file :]
    assert stored(copy) == wanted(feed.rows, QUERIES) | wanted(since, ["storm OR flood OR fire"], later)


def test_a_file_of_posts_that_is_gone_before_its_batch_comes_again_is_missed(crashed, tmp_path):
    feed, state = crashed
    file = feed.folder / "00002.jsonl"
    kept = file.rename(tmp_path / file.name)
    try:
        (result,) = run_commands([["run", "--posts", str(feed.folder), "--state", str(state), "--once"]], tmp_path)
    finally:
        kept.rename(file)
    assert (result.code, result.err.count("\n")) == (2, 1), result.err
    assert f"{file}: this file was taken for batch 2 and is gone before it was matched; put it back" in result.err
    assert f"remove {state / 'checkpoint'}" in result.err
