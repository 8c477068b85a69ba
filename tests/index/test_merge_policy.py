"""Folding keeps segments few and changes nothing that is found; retiring deletes only what nobody needs."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contract.matchers import expected, match_index, table
from tests.generators import queries as any_query

from tidings.errors import IndexDamaged
from tidings.index.builder import change_index, create_index, prepare_merge
from tidings.index.gc import retire_versions, sweep
from tidings.index.manifest import PlanRecord, versions
from tidings.index.merge_policy import fold_index
from tidings.index.reader import Index
from tidings.matching.brute_force import ScanPost

PLANS = [None, PlanRecord("hash", 3, 7)]
both_plans = pytest.mark.parametrize("plan", PLANS, ids=["replicated", "partitioned"])
POSTS = [ScanPost("cat"), ScanPost("dog fish storm"), ScanPost("cat dog zebra", 3.0, 3.0), ScanPost("new york cats")]
changes = st.lists(st.tuples(st.lists(any_query, max_size=3), st.integers(0, 20)), min_size=1, max_size=8)


@both_plans
@settings(max_examples=8, deadline=None)
@given(changes=changes)
def test_folded_after_every_change_the_same_is_found(tmp_path_factory, plan, changes):
    live = {0: "cat", 1: "dog OR zebra", 2: '"new york" -dog'}
    index, _ = create_index(tmp_path_factory.mktemp("index") / "i", table(list(live.values())), plan)
    next_id = 10
    for added, gone in changes:
        new = {next_id + place: query for place, query in enumerate(added)}
        next_id += len(new)
        rows = table(list(new.values()), list(new)) if new else None
        index, refused = change_index(index, rows, pa.array([gone], pa.int64()), position=next_id)
        live.pop(gone, None)
        live |= {
            number: query for place, (number, query) in enumerate(new.items()) if place not in {r.row for r in refused}
        }
        index = fold_index(index)
        assert index.manifest.position == next_id
        rows_of = [live.get(number, "") for number in range(next_id)]
        assert match_index(Index.open(index.folder, thoroughly=True), POSTS, 10) == expected(rows_of, POSTS)


@both_plans
def test_segments_and_layers_stay_logarithmic(tmp_path, plan):
    index, _ = create_index(tmp_path / "index", table(["cat", "dog", "fish", "storm", "zebra"] * 40), plan)
    for number in range(60):
        index, _ = change_index(index, table([f"word{number} cat"], [1000 + number]), pa.array([number], pa.int64()))
        index = fold_index(index)
        bound = 2 + math.log2(number + 2)
        assert all(len(shard) <= bound for shard in index.manifest.shards)
        assert len(index.manifest.layers) <= bound
    assert index.manifest.subscriptions == 200
    found = match_index(index, [ScanPost("word7 cats"), ScanPost("word59 cat")], 10)
    assert {(1007, 0), (1059, 1)} <= set(found)


def test_nothing_to_fold_is_no_new_version(tmp_path):
    index, _ = create_index(tmp_path / "index", table(["cat"]))
    assert fold_index(index) is index


@both_plans
def test_retired_versions_are_gone_and_the_others_whole(tmp_path, plan):
    folder = tmp_path / "index"
    index, _ = create_index(folder, table(["cat", "dog"]), plan)
    for number in range(6):
        index, _ = change_index(index, table([f"cat word{number}"], [10 + number]))
        index = fold_index(index)
    kept = {3, index.version}
    assert retire_versions(folder, {3}) > 0
    assert set(versions(folder)) == kept
    for version in kept:
        Index.open(folder, version, thoroughly=True)
    with pytest.raises(IndexDamaged):
        Index.open(folder, 4)


def test_sweeping_deletes_what_a_killed_process_left_and_nothing_else(tmp_path):
    folder = tmp_path / "index"
    index, _ = create_index(folder, table(["cat", "dog"]))
    prepare_merge(index)
    before = len(list(folder.iterdir()))
    sweep(folder)
    assert len(list(folder.iterdir())) < before
    Index.open(folder, thoroughly=True)
    sweep(folder)
    Index.open(folder, thoroughly=True)


def test_a_merge_made_aside_takes_the_version_it_is_published_with(tmp_path):
    index, _ = create_index(tmp_path / "index", table(["cat", "dog"]))
    changed, _ = change_index(index, table(["fish"], [5]), position=4)
    prepared = prepare_merge(changed)
    later, _ = change_index(changed, table(["storm"], [6]), position=5)
    merged = prepared.publish(later.version + 1)
    assert (merged.version, merged.manifest.position) == (4, 4)
    assert match_index(merged, [ScanPost("fish storm")], 1) == [(5, 0)]
