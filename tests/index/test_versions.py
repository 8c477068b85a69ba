"""Versions: what is there is never changed, a change costs what it changes, a merge leaves nothing behind."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from tests.contract.matchers import expected, match_index, table

from tidings.demo.generate import generate_queries
from tidings.index.builder import change_index, create_index, merge_index
from tidings.index.manifest import PlanRecord
from tidings.index.reader import Index, LiveSegment
from tidings.matching.brute_force import ScanPost

PLANS = [None, PlanRecord("hash", 3, 7)]
both_plans = pytest.mark.parametrize("plan", PLANS, ids=["replicated", "partitioned"])
POSTS = [ScanPost("cat"), ScanPost("dog fish"), ScanPost("cat dog zebra", 3.0, 3.0)]


def ids(index: Index) -> list[object]:
    """The ids of all subscriptions that are there."""
    found = []
    for shard in range(len(index.manifest.shards)):
        for live in index.shard(shard):
            gone = live.removed if len(live.removed) else np.zeros(len(live.segment), np.uint8)
            found += [own for own, is_gone in zip(live.segment.ids.to_pylist(), gone, strict=True) if not is_gone]
    return sorted(set(found), key=str)


def strings(**queries: str) -> pa.Table:
    return pa.table({"id": pa.array(list(queries), pa.string()), "query": list(queries.values())})


def written_bytes(index: Index, before: Index) -> int:
    """The bytes of the files that a version added."""
    return sum(r.size_bytes for name, r in index.manifest.files.items() if name not in before.manifest.files)


def _held_bytes(one: LiveSegment) -> int:
    leads = one.leads
    beside = (leads.leads, leads.companions, leads.wordless, one.words, one.shared)
    return one.segment.size_bytes + sum(array.nbytes for array in beside)


@both_plans
def test_a_version_stays_as_it_was(tmp_path, plan):
    contents = [
        ["cat", "dog OR zebra", "fish"],
        ["cat dog", "dog OR zebra"],
        ["cat dog", "dog OR zebra", "", "within:0,0,9,9"],
    ]
    first, _ = create_index(tmp_path / "index", table(contents[0]), plan)
    second, _ = change_index(first, table(["cat dog"], [0]), pa.array([2], pa.int64()))
    third, _ = change_index(second, table(["within:0,0,9,9"], [3]))
    merge_index(third)
    for version, queries in enumerate([*contents, contents[2]], 1):
        index = Index.open(tmp_path / "index", version=version, thoroughly=True)
        assert index.version == version
        assert match_index(index, POSTS, 10) == expected(queries, POSTS)
        assert index.manifest.subscriptions == sum(map(bool, queries))
    assert Index.open(tmp_path / "index").version == 4


@both_plans
def test_a_change_writes_only_what_it_changes(tmp_path, plan):
    base, _ = create_index(tmp_path / "index", table(generate_queries(20_000, seed=1)), plan)
    kept = {name: (tmp_path / "index" / name).stat().st_mtime_ns for name in base.manifest.files}
    changed, _ = change_index(base, table(["brandnewword cat", "storm"], [70_000, 70_001]), pa.array([5], pa.int64()))
    assert written_bytes(changed, base) < base.size_bytes / 50
    assert kept == {name: (tmp_path / "index" / name).stat().st_mtime_ns for name in base.manifest.files}
    assert set(base.manifest.files) <= set(changed.manifest.files)
    again, _ = change_index(changed, removed=pa.array([70_000], pa.int64()))
    assert written_bytes(again, changed) < 10_000


@both_plans
def test_a_change_of_nothing_is_a_version_that_matches_the_same(tmp_path, plan):
    base, _ = create_index(tmp_path / "index", table(["cat", "dog OR fish"]), plan)
    for removed in (None, pa.array([], pa.int64()), pa.array([99], pa.int64()), pa.array(["no number"])):
        same, _ = change_index(base, removed=removed)
        assert same.version == 2
        assert written_bytes(same, base) == 0
        assert match_index(same, POSTS, 2) == expected(["cat", "dog OR fish"], POSTS)


@both_plans
def test_an_added_id_that_is_there_is_replaced(tmp_path, plan):
    base, _ = create_index(tmp_path / "index", strings(a="cat OR dog", b="dog", c="fish"), plan)
    changed, _ = change_index(base, strings(b="zebra", d="cat"))
    assert ids(changed) == ["a", "b", "c", "d"]
    assert changed.manifest.subscriptions == 4
    back, _ = change_index(changed, strings(b="dog"), pa.array(["d", "a", "nobody"]))
    assert ids(back) == ["b", "c"]
    assert back.manifest.subscriptions == 2


def test_a_replacement_that_is_refused_leaves_what_was_there(tmp_path):
    base, _ = create_index(tmp_path / "index", strings(a="cat"))
    changed, refused = change_index(base, strings(a="(cat", b="dog"))
    assert ids(changed) == ["a", "b"]
    assert [one.row for one in refused] == [0]


@both_plans
def test_all_may_go_and_come_back(tmp_path, plan):
    base, _ = create_index(tmp_path / "index", table(["cat", "dog OR cat"]), plan)
    empty, _ = change_index(base, removed=pa.array([0, 1], pa.int64()))
    assert empty.manifest.subscriptions == 0
    assert match_index(empty, POSTS, 10) == []
    merged = merge_index(empty)
    assert match_index(merged, POSTS, 10) == []
    assert merged.manifest.terms == 0
    back, _ = change_index(merged, table(["cat", "dog OR cat"]))
    assert match_index(back, POSTS, 10) == expected(["cat", "dog OR cat"], POSTS)
    assert match_index(merge_index(back), POSTS, 10) == expected(["cat", "dog OR cat"], POSTS)


@both_plans
def test_a_merge_drops_words_and_subscriptions_nobody_needs(tmp_path, plan):
    base, _ = create_index(tmp_path / "index", table(["cat", "unneededword dog", "fish -otherword"]), plan)
    changed, _ = change_index(base, table(["cat thirdword"], [3]), pa.array([1, 3], pa.int64()))
    changed, _ = change_index(changed, removed=pa.array([3], pa.int64()))
    merged = merge_index(changed)
    assert sorted(merged.vocabulary.terms()) == [b"cat", b"fish", b"otherword"]
    assert ids(merged) == [0, 2]
    assert all(len(shard) <= 1 for shard in merged.manifest.shards)
    assert not any(record.removed for shard in merged.manifest.shards for record in shard)


@both_plans
def test_a_merge_of_an_empty_index_is_empty(tmp_path, plan):
    empty, _ = create_index(tmp_path / "index", table([]), plan)
    merged = merge_index(empty)
    assert merged.manifest.subscriptions == 0
    assert match_index(merged, POSTS, 10) == []


def test_duplicate_subscriptions_share_one_entry(tmp_path):
    index, _ = create_index(
        tmp_path / "index", table(["cat dog", "dogs CATS", "dog cat cat", "cat dog -fish", "dog -fish cat"])
    )
    segment = index.shard(0)[0].segment
    assert len(segment.second) == 2
    assert len(segment.holders) == 5
    merged = merge_index(index).shard(0)[0].segment
    assert len(merged.second) == 2


@pytest.mark.parametrize(
    "own",
    [
        pa.array([3, -7, 2**62], pa.int64()),
        pa.array([3, -7, 5], pa.int16()),
        pa.array(["007", "7", "ключ"], pa.string()),
        pa.array([Decimal("12345678901234567890.50"), Decimal("-1.00"), Decimal("0.07")], pa.decimal128(38, 2)),
    ],
    ids=lambda own: str(own.type),
)
@both_plans
def test_ids_of_any_type_are_kept_and_found_again(tmp_path, own, plan):
    base, _ = create_index(tmp_path / "index", pa.table({"id": own, "query": ["cat OR dog", "fish", "bird"]}), plan)
    assert base.id_type == own.type
    changed, _ = change_index(base, pa.table({"id": own.slice(1, 1), "query": ["lynx"]}), own.slice(2, 1))
    merged = merge_index(changed)
    for index in (changed, merged):
        assert index.id_type == own.type
        assert ids(index) == sorted(own.slice(0, 2).to_pylist(), key=str)
        assert index.manifest.subscriptions == 2


def test_three_words_take_at_most_64_bytes_a_subscription(tmp_path):
    chance = np.random.default_rng(0)
    words = np.minimum(chance.zipf(1.2, (20_000, 3)), 30_000)
    queries = [" ".join(f"w{word}" for word in row) for row in words.tolist()]
    for plan in PLANS:
        index, _ = create_index(tmp_path / f"index-{plan is None}", table(queries), plan)
        live = [one for shard in range(len(index.manifest.shards)) for one in index.shard(shard)]
        held = sum(_held_bytes(one) for one in live)
        assert held / len(queries) <= 64
