"""Boxes and circles in cells of every size match posts on all borders as by brute force."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tidings.index.builder import apply_changes, create_index
from tidings.index.decompile import decompile
from tidings.matching.brute_force import RawPost, match_all
from tidings.matching.segment_matcher import SegmentMatcher
from tidings.query.parse import parse
from tidings.testing.pipeline import match_index

STEP = 1 / 1024  # degrees: the resolution of boxes in the smallest cells
WORDS = ["", "cat ", "cat ", "cat ", "dog ", "cat dog ", "(cat OR dog) ", "cat bird fish ", "cat -bird ", "rare "]
CORNERS = [(-180.0, -90.0), (179.75, 89.75), (0.0, 0.0), (-74.125, 40.0)]


def regions(rng: np.random.Generator, count: int) -> list[str]:
    """Return regions around corners of cells: on and off the steps, whole cells, points, the world, circles."""
    result = ["within:-180,-90,180,90", "within:-180,0,180,0", "near:40,-74,25", "near:0,179.99,30"]
    result += ["within:179.75,-90,-179.5,89.75", "within:0,80,10,90", "within:1,-90,0,90", "within:180,-1,-180,1"]
    for _ in range(count - len(result)):
        west, south = CORNERS[rng.integers(len(CORNERS))] + rng.integers(-130, 260, 2) * STEP * rng.choice([1, 0.37])
        wide, high = rng.choice([0.0, STEP / 3, 5 * STEP, 0.125, 0.3, 2.0, 20.0], 2)
        sides = np.clip([west, south, west + wide, south + high], [-180, -90] * 2, [180, 90] * 2)
        result.append("within:" + ",".join(repr(float(side)) for side in sides))
    return result


def queries(rng: np.random.Generator, count: int) -> list[str]:
    """Return queries, over a thousand with one word, so that it is in the smallest cells; some are the same."""
    words = regions(rng, count * 3 // 4)
    drawn = [rng.choice(WORDS) + words[rng.integers(len(words))] for _ in range(count)]
    return [
        *drawn,
        *(f"cat {first} OR bird {second}" for first, second in zip(words[:90], words[20:110], strict=True)),
    ]


def posts(rng: np.random.Generator, subscribed: list[str]) -> list[RawPost]:
    """Return posts on the corners of regions, next to them, and on the borders of cells."""
    boxes = [query.split("within:")[1].split() for query in subscribed if "within:" in query]
    sides = np.array([[float(side) for side in box[0].split(",")] for box in boxes])[:: len(boxes) // 90]
    corners = np.concatenate([sides[:, [0, 1]], sides[:, [2, 3]], sides[:, [0, 3]], np.array(CORNERS)])
    near = np.concatenate([corners, np.nextafter(corners, 0), np.nextafter(corners, 999), corners + STEP / 2])
    lons, lats = np.clip(near, [-180, -90], [180, 90]).T.tolist()
    texts = ["cat", "cat dog", "cat bird fish", "rare dog", ""]
    return [RawPost(texts[n % len(texts)], lat, lon) for n, (lon, lat) in enumerate(zip(lons, lats, strict=True))]


@pytest.mark.parametrize("seed", [1, 2])
def test_spatial_entries_match_as_by_brute_force_also_after_removals(tmp_path, seed):
    rng = np.random.default_rng(seed)
    subscribed = queries(rng, 1_900)
    raw_posts = posts(rng, subscribed)
    table = pa.table({"id": np.arange(len(subscribed)), "query": subscribed})
    index, invalid = create_index(tmp_path / "index", table)
    removed = rng.choice(len(subscribed), 200, replace=False)
    assert invalid == ()
    parsed = [parse(query) for query in table["query"].to_pylist()]
    expected = sorted(match_all(raw_posts, parsed))
    assert len(expected) > 1 << 14, "the matches must not fit the initial buffers"
    assert match_index(index, raw_posts, 2_000) == expected
    changed, _ = apply_changes(index, table.slice(0, 300), pa.array(removed))
    left = set(range(len(subscribed))) - set(removed[removed >= 300].tolist())
    assert match_index(changed, raw_posts, 64) == [(row, post) for row, post in expected if row in left]


def test_the_queries_cover_all_kinds_of_posting_lists_and_entries(tmp_path):
    subscribed = queries(np.random.default_rng(1), 1_900)
    index, _ = create_index(tmp_path / "index", pa.table({"id": np.arange(len(subscribed)), "query": subscribed}))
    segment = index.open_shard(0)[0].segment
    sizes = np.bincount((segment.cell_keys >> np.uint64(60)).astype(np.int64), minlength=3)
    lengths = np.diff(segment.cell_start.astype(np.int64)).reshape(-1, 2)
    subscriber_counts = np.bincount(np.diff(segment.subscriber_start.astype(np.int64)))
    assert sizes.min() > 10
    assert lengths.all(axis=1).any(), "posting lists with both kinds"
    assert subscriber_counts[1] > 100
    assert subscriber_counts[2:].sum() > 100, "entries of several subscribers"
    assert np.bincount(segment.subscribers).max() > 1, "subscribers of several entries"


def test_subscriptions_are_numbered_in_the_order_of_entries(tmp_path):
    subscribed = queries(np.random.default_rng(1), 1_900)
    index, _ = create_index(tmp_path / "index", pa.table({"id": np.arange(len(subscribed)), "query": subscribed}))
    subscribers = index.open_shard(0)[0].segment.subscribers
    firsts = np.sort(np.unique(subscribers, return_index=True)[1])
    assert subscribers[firsts].tolist() == list(range(len(subscribed)))


def test_a_post_with_more_matches_than_the_buffer_finds_all(tmp_path):
    subscribed = ["cat within:0,0,1,1"] * 40_000 + ["cat within:0,0,1,2 OR dog within:0,0,1,1"] * 3
    index, _ = create_index(tmp_path / "index", pa.table({"id": np.arange(len(subscribed)), "query": subscribed}))
    view = index.open_shard(0)[0]
    batch = index.analyzer().analyze(pa.array(["dog", "cat dog", "cat"]))
    matcher = SegmentMatcher(view.segment, index.manifest.terms)
    for _ in range(2):
        hits = matcher.match(batch, np.array([[0.5, 0.5]] * 3))
        assert hits.counts.tolist() == [3, 40_003, 40_003]
        assert hits.posts.tolist() == np.repeat([0, 1, 2], hits.counts).tolist()
        assert len(np.unique(hits.subscriptions[3 : 3 + 40_003])) == 40_003
    assert len(decompile(view.segment, view.removed)) == 40_006
