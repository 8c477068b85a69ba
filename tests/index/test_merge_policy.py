"""Small segments are merged with every change; garbage collection deletes only what no version needs."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.errors import IndexDamaged
from tidings.index.builder import apply_changes, create_index, prepare_merge
from tidings.index.files import load_json, save_json
from tidings.index.gc import delete_orphans, delete_outdated, delete_versions
from tidings.index.manifest import FORMAT_VERSION, PlanRecord, list_versions, manifest_path
from tidings.index.merge_policy import count_to_merge
from tidings.index.reader import Index
from tidings.matching.brute_force import RawPost
from tidings.testing.oracles import expected_matches
from tidings.testing.pipeline import match_index, subscription_table
from tidings.testing.strategies import queries as any_query

PLANS = [None, PlanRecord("hash", 3, 7)]
both_plans = pytest.mark.parametrize("plan", PLANS, ids=["replicated", "partitioned"])
POSTS = [RawPost("cat"), RawPost("dog fish storm"), RawPost("cat dog zebra", 3.0, 3.0), RawPost("new york cats")]
changes = st.lists(st.tuples(st.lists(any_query, max_size=3), st.integers(0, 20)), min_size=1, max_size=8)


def folders_on_disk(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if path.is_dir()}


def folders_in_use(folder: Path) -> set[str]:
    versions = [Index.open(folder, version) for version in list_versions(folder)]
    return {name.split("/")[0] for index in versions for name in index.manifest.files}


@pytest.mark.parametrize(
    ("sizes", "added", "merged"),
    [
        ([], 5, 0),  # a new index
        ([100], 5, 0),  # the base is never merged
        ([100], 1_000, 0),
        ([100, 9], 5, 1),
        ([100, 10], 5, 0),
        ([100, 28, 9], 5, 1),
        ([100, 27, 9], 5, 2),
        ([100, 3, 1], 0, 0),
    ],
)
def test_segments_smaller_than_twice_the_newer_ones_are_merged(sizes, added, merged):
    assert count_to_merge(sizes, added) == merged


@both_plans
@settings(max_examples=8, deadline=None)
@given(changes=changes)
def test_matches_are_correct_after_every_change(tmp_path_factory, plan, changes):
    live = {0: "cat", 1: "dog OR zebra", 2: '"new york" -dog'}
    index, _ = create_index(tmp_path_factory.mktemp("index") / "i", subscription_table(list(live.values())), plan)
    next_id = 10
    for added, removed in changes:
        new = {next_id + row: query for row, query in enumerate(added)}
        next_id += len(new)
        rows = subscription_table(list(new.values()), list(new)) if new else None
        version = index.version
        index, invalid = apply_changes(index, rows, pa.array([removed], pa.int64()), log_position=next_id)
        live.pop(removed, None)
        invalid_rows = {subscription.row for subscription in invalid}
        live |= {number: query for row, (number, query) in enumerate(new.items()) if row not in invalid_rows}
        assert (index.version, index.manifest.log_position) == (version + 1, next_id)
        queries = [live.get(number, "") for number in range(next_id)]
        assert match_index(Index.open(index.folder, thoroughly=True), POSTS, 10) == expected_matches(queries, POSTS)


@both_plans
def test_the_number_of_segments_and_layers_is_logarithmic(tmp_path, plan):
    index, _ = create_index(tmp_path / "index", subscription_table(["cat", "dog", "fish", "storm", "zebra"] * 40), plan)
    for number in range(60):
        index, _ = apply_changes(
            index, subscription_table([f"word{number} cat"], [1000 + number]), pa.array([number], pa.int64())
        )
        bound = 2 + math.log2(number + 2)
        assert all(len(shard) <= bound for shard in index.manifest.shards)
        assert len(index.manifest.layers) <= bound
    assert index.manifest.subscriptions == 200
    matches = match_index(index, [RawPost("word7 cats"), RawPost("word59 cat")], 10)
    assert {(1007, 0), (1059, 1)} <= set(matches)


@both_plans
def test_a_change_that_merges_segments_publishes_one_version(tmp_path, plan):
    folder = tmp_path / "index"
    base, _ = create_index(folder, subscription_table(["cat", "dog", "fish"] * 9), plan)
    first, _ = apply_changes(base, subscription_table(["cat newword", "zebra"], [100, 101]))
    before = folders_on_disk(folder)
    merged, _ = apply_changes(
        first, subscription_table(["cat otherword", "lynx"], [102, 103]), pa.array([100], pa.int64())
    )
    assert list_versions(folder) == [1, 2, 3]
    assert merged.version == first.version + 1
    assert all(len(shard) <= 2 for shard in merged.manifest.shards)
    assert len(merged.manifest.layers) == len(first.manifest.layers) == 2
    assert folders_on_disk(folder) == folders_in_use(folder), "nothing is written that no version uses"
    kinds = sorted(name.split("-")[0] for name in folders_on_disk(folder) - before)
    assert kinds.count("segment") <= (1 if plan is None else 3)
    assert kinds.count("vocabulary") == 1
    posts = [RawPost("cat newword"), RawPost("cats otherword"), RawPost("zebra lynx")]
    assert [match for match in match_index(merged, posts, 10) if match[0] >= 100] == [(101, 2), (102, 1), (103, 2)]


def test_a_change_is_invisible_until_its_manifest_is_complete(tmp_path, monkeypatch):
    folder = tmp_path / "index"
    index, _ = create_index(folder, subscription_table(["cat", "dog"]))
    index, _ = apply_changes(index, subscription_table(["fish"], [5]))

    def fail(folder, manifest):
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr("tidings.index.writer.save_manifest", fail)
        with pytest.raises(OSError, match="disk full"):
            apply_changes(index, subscription_table(["storm"], [6]), pa.array([5], pa.int64()))
    assert Index.open(folder, thoroughly=True).version == index.version
    delete_orphans(folder)
    assert folders_on_disk(folder) == folders_in_use(folder)
    later, _ = apply_changes(Index.open(folder), subscription_table(["storm"], [6]))
    assert match_index(later, [RawPost("fish storm")], 1) == [(5, 0), (6, 0)]


@both_plans
def test_deleted_versions_are_gone_and_the_others_complete(tmp_path, plan):
    folder = tmp_path / "index"
    index, _ = create_index(folder, subscription_table(["cat", "dog"]), plan)
    for number in range(6):
        index, _ = apply_changes(index, subscription_table([f"cat word{number}"], [10 + number]))
    kept = {3, index.version}
    assert delete_versions(folder, {3}) > 0
    assert set(list_versions(folder)) == kept
    for version in kept:
        Index.open(folder, version, thoroughly=True)
    with pytest.raises(IndexDamaged):
        Index.open(folder, 4)


def test_orphans_of_a_killed_process_are_deleted(tmp_path):
    folder = tmp_path / "index"
    index, _ = create_index(folder, subscription_table(["cat", "dog"]))
    (folder / "token-cache").mkdir()
    prepare_merge(index)
    before = len(list(folder.iterdir()))
    delete_orphans(folder)
    assert len(list(folder.iterdir())) < before
    assert (folder / "token-cache").is_dir()
    Index.open(folder, thoroughly=True)
    delete_orphans(folder)
    Index.open(folder, thoroughly=True)


def write_format_version(path: Path, version: int) -> None:
    save_json(path, {**load_json(path), "format_version": version})


def test_an_index_of_an_older_format_is_deleted(tmp_path):
    folder = tmp_path / "index"
    assert not delete_outdated(folder)
    create_index(folder, subscription_table(["cat", "dog"]))
    assert not delete_outdated(folder)
    write_format_version(manifest_path(folder, 1), FORMAT_VERSION - 1)
    with pytest.raises(IndexDamaged, match=f"format {FORMAT_VERSION - 1}"):
        Index.open(folder)
    assert delete_outdated(folder)
    assert list(folder.iterdir()) == []
    assert create_index(folder, subscription_table(["cat"]))[0].version == 1


def test_a_damaged_or_newer_index_is_not_deleted(tmp_path):
    folder = tmp_path / "index"
    create_index(folder, subscription_table(["cat"]))
    path = manifest_path(folder, 1)
    write_format_version(path, FORMAT_VERSION + 1)
    assert not delete_outdated(folder)
    path.write_text("{")
    assert not delete_outdated(folder)
    assert path.exists()


def test_a_prepared_merge_gets_its_version_when_it_is_published(tmp_path):
    index, _ = create_index(tmp_path / "index", subscription_table(["cat", "dog"]))
    changed, _ = apply_changes(index, subscription_table(["fish"], [5]), log_position=4)
    prepared = prepare_merge(changed)
    later, _ = apply_changes(changed, subscription_table(["storm"], [6]), log_position=5)
    merged = prepared.publish(later.version + 1)
    assert (merged.version, merged.manifest.log_position) == (4, 4)
    assert match_index(merged, [RawPost("fish storm")], 1) == [(5, 0)]


BUILD = """
import sys
from pathlib import Path
import pyarrow as pa
from tidings.index.builder import apply_changes, create_index
from tidings.index.manifest import PlanRecord
queries = ['zebra OR (cat dog) -fish', '"white house" -"red fox" storm', 'rain near:5,5,100 -within:0,0,1,1 lynx',
           '(a1 OR b1) (c1 OR d1) within:0,0,9,9 near:1,1,50', 'a2 b2 c2 d2 e2 f2 -g2 -h2', '#tag bird -#other']
table = pa.table({"id": pa.array(range(len(queries)), pa.int64()), "query": queries})
index, _ = create_index(Path(sys.argv[1]), table.slice(0, 3), PlanRecord("hash", 3, 7, sys.argv[2]))
index, _ = apply_changes(index, table.slice(3), pa.array([1], pa.int64()))
for name, record in sorted(index.manifest.files.items()):
    folder, _, file = name.partition("/")
    print(folder.rpartition("-")[0], file, record.checksum)
"""


@pytest.mark.parametrize("placer", ["anchor", "lasp", "random"])
def test_an_index_does_not_depend_on_the_hash_seed(tmp_path, placer):
    outputs = [
        subprocess.run(
            [sys.executable, "-c", BUILD, str(tmp_path / seed), placer],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert outputs[0] == outputs[1]
    assert len(outputs[0].splitlines()) > 50
