"""Index versions are immutable, a change writes only what it changes, and a merge drops what is unused."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from tidings.demo.generate import generate_queries
from tidings.index.builder import apply_changes, create_index, merge_index
from tidings.index.manifest import PlanRecord
from tidings.index.reader import Index, SegmentView
from tidings.matching.brute_force import RawPost
from tidings.testing.oracles import expected_matches
from tidings.testing.pipeline import match_index, subscription_table

PLANS = [None, PlanRecord("hash", 3, 7)]
both_plans = pytest.mark.parametrize("plan", PLANS, ids=["replicated", "partitioned"])
POSTS = [RawPost("cat"), RawPost("dog fish"), RawPost("cat dog zebra", 3.0, 3.0)]


def ids(index: Index) -> list[object]:
    """Return the ids of all live subscriptions."""
    found = set()
    for shard in range(len(index.manifest.shards)):
        for view in index.open_shard(shard):
            removed = view.removed if len(view.removed) else np.zeros(len(view.segment), np.uint8)
            found.update(view.segment.ids.filter(pa.array(removed == 0)).to_pylist())
    return sorted(found, key=str)


def strings(**queries: str) -> pa.Table:
    return pa.table({"id": pa.array(list(queries), pa.string()), "query": list(queries.values())})


def written_bytes(index: Index, before: Index) -> int:
    """Return the size of the files that a version added."""
    return sum(r.size_bytes for name, r in index.manifest.files.items() if name not in before.manifest.files)


def memory_bytes(view: SegmentView) -> int:
    anchors = view.anchors
    signatures = (anchors.companion_signatures, anchors.region_only_signature)
    arrays = (anchors.terms, *signatures, view.terms, view.is_shared)
    return view.segment.size_bytes + sum(array.nbytes for array in arrays)


@both_plans
def test_a_version_does_not_change(tmp_path, plan):
    contents = [
        ["cat", "dog OR zebra", "fish"],
        ["cat dog", "dog OR zebra"],
        ["cat dog", "dog OR zebra", "", "within:0,0,9,9"],
    ]
    first, _ = create_index(tmp_path / "index", subscription_table(contents[0]), plan)
    second, _ = apply_changes(first, subscription_table(["cat dog"], [0]), pa.array([2], pa.int64()))
    third, _ = apply_changes(second, subscription_table(["within:0,0,9,9"], [3]))
    merge_index(third)
    for version, queries in enumerate([*contents, contents[2]], 1):
        index = Index.open(tmp_path / "index", version=version, thoroughly=True)
        assert index.version == version
        assert match_index(index, POSTS, 10) == expected_matches(queries, POSTS)
        assert index.manifest.subscriptions == sum(map(bool, queries))
    assert Index.open(tmp_path / "index").version == 4


@both_plans
def test_a_change_writes_only_what_it_changes(tmp_path, plan):
    base, _ = create_index(tmp_path / "index", subscription_table(generate_queries(20_000, seed=1)), plan)
    kept = {name: (tmp_path / "index" / name).stat().st_mtime_ns for name in base.manifest.files}
    changed, _ = apply_changes(
        base, subscription_table(["brandnewword cat", "storm"], [70_000, 70_001]), pa.array([5], pa.int64())
    )
    assert written_bytes(changed, base) < base.size_bytes / 50
    assert kept == {name: (tmp_path / "index" / name).stat().st_mtime_ns for name in base.manifest.files}
    assert set(base.manifest.files) <= set(changed.manifest.files)
    again, _ = apply_changes(changed, removed=pa.array([70_000], pa.int64()))
    assert written_bytes(again, changed) < 10_000


@both_plans
def test_an_empty_change_is_a_version_with_the_same_matches(tmp_path, plan):
    base, _ = create_index(tmp_path / "index", subscription_table(["cat", "dog OR fish"]), plan)
    for removed in (None, pa.array([], pa.int64()), pa.array([99], pa.int64()), pa.array(["no number"])):
        same, _ = apply_changes(base, removed=removed)
        assert same.version == 2
        assert written_bytes(same, base) == 0
        assert match_index(same, POSTS, 2) == expected_matches(["cat", "dog OR fish"], POSTS)


@both_plans
def test_an_existing_id_is_replaced(tmp_path, plan):
    base, _ = create_index(tmp_path / "index", strings(a="cat OR dog", b="dog", c="fish"), plan)
    changed, _ = apply_changes(base, strings(b="zebra", d="cat"))
    assert ids(changed) == ["a", "b", "c", "d"]
    assert changed.manifest.subscriptions == 4
    back, _ = apply_changes(changed, strings(b="dog"), pa.array(["d", "a", "nobody"]))
    assert ids(back) == ["b", "c"]
    assert back.manifest.subscriptions == 2


def test_an_invalid_replacement_keeps_the_old_subscription(tmp_path):
    base, _ = create_index(tmp_path / "index", strings(a="cat"))
    changed, invalid = apply_changes(base, strings(a="(cat", b="dog"))
    assert ids(changed) == ["a", "b"]
    assert [subscription.row for subscription in invalid] == [0]


@both_plans
def test_all_subscriptions_can_be_removed_and_added_again(tmp_path, plan):
    base, _ = create_index(tmp_path / "index", subscription_table(["cat", "dog OR cat"]), plan)
    empty, _ = apply_changes(base, removed=pa.array([0, 1], pa.int64()))
    assert empty.manifest.subscriptions == 0
    assert match_index(empty, POSTS, 10) == []
    merged = merge_index(empty)
    assert match_index(merged, POSTS, 10) == []
    assert merged.manifest.terms == 0
    back, _ = apply_changes(merged, subscription_table(["cat", "dog OR cat"]))
    assert match_index(back, POSTS, 10) == expected_matches(["cat", "dog OR cat"], POSTS)
    assert match_index(merge_index(back), POSTS, 10) == expected_matches(["cat", "dog OR cat"], POSTS)


@both_plans
def test_a_merge_drops_unused_terms_and_subscriptions(tmp_path, plan):
    base, _ = create_index(tmp_path / "index", subscription_table(["cat", "unneededword dog", "fish -otherword"]), plan)
    changed, _ = apply_changes(base, subscription_table(["cat thirdword"], [3]), pa.array([1, 3], pa.int64()))
    changed, _ = apply_changes(changed, removed=pa.array([3], pa.int64()))
    merged = merge_index(changed)
    assert sorted(merged.vocabulary.terms()) == [b"cat", b"fish", b"otherword"]
    assert ids(merged) == [0, 2]
    assert all(len(shard) <= 1 for shard in merged.manifest.shards)
    assert not any(record.removed for shard in merged.manifest.shards for record in shard)


@both_plans
def test_a_merge_of_an_empty_index_is_empty(tmp_path, plan):
    empty, _ = create_index(tmp_path / "index", subscription_table([]), plan)
    merged = merge_index(empty)
    assert merged.manifest.subscriptions == 0
    assert match_index(merged, POSTS, 10) == []


def test_duplicate_subscriptions_share_one_entry(tmp_path):
    index, _ = create_index(
        tmp_path / "index",
        subscription_table(["cat dog", "dogs CATS", "dog cat cat", "cat dog -fish", "dog -fish cat"]),
    )
    segment = index.open_shard(0)[0].segment
    assert len(segment.second_term) == 2
    assert len(segment.subscribers) == 5
    merged = merge_index(index).open_shard(0)[0].segment
    assert len(merged.second_term) == 2


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
def test_ids_of_any_type_are_stored_and_found(tmp_path, own, plan):
    base, _ = create_index(tmp_path / "index", pa.table({"id": own, "query": ["cat OR dog", "fish", "bird"]}), plan)
    assert base.id_type == own.type
    changed, _ = apply_changes(base, pa.table({"id": own.slice(1, 1), "query": ["lynx"]}), own.slice(2, 1))
    merged = merge_index(changed)
    for index in (changed, merged):
        assert index.id_type == own.type
        assert ids(index) == sorted(own.slice(0, 2).to_pylist(), key=str)
        assert index.manifest.subscriptions == 2


def test_three_terms_need_at_most_64_bytes_per_subscription(tmp_path):
    chance = np.random.default_rng(0)
    words = np.minimum(chance.zipf(1.2, (20_000, 3)), 30_000)
    queries = [" ".join(f"w{word}" for word in row) for row in words.tolist()]
    for plan in PLANS:
        index, _ = create_index(tmp_path / f"index-{plan is None}", subscription_table(queries), plan)
        views = [view for shard in range(len(index.manifest.shards)) for view in index.open_shard(shard)]
        total_bytes = sum(map(memory_bytes, views))
        assert total_bytes / len(queries) <= 64
