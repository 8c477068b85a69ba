"""Rectangles and circles in cells of every size, whoever holds them, for posts on the borders of everything."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from tests.contract.matchers import match_index

from tidings.index.builder import change_index, create_index
from tidings.index.decompile import decompile
from tidings.matching.brute_force import ScanPost, scan
from tidings.matching.segment_matcher import FlatMatcher
from tidings.query.table import parse_rows

STEP = 1 / 1024  # degrees: of the smallest cells, in which a rectangle's part is told
WORDS = ["", "cat ", "cat ", "cat ", "dog ", "cat dog ", "(cat OR dog) ", "cat bird fish ", "cat -bird ", "rare "]
CORNERS = [(-180.0, -90.0), (179.75, 89.75), (0.0, 0.0), (-74.125, 40.0)]


def regions(rng: np.random.Generator, count: int) -> list[str]:
    """Around some corners of cells: on steps and beside them, whole cells and more, points, the world, circles."""
    found = ["within:-180,-90,180,90", "within:-180,0,180,0", "near:40,-74,25", "near:0,179.99,30"]
    for _ in range(count - len(found)):
        west, south = CORNERS[rng.integers(len(CORNERS))] + rng.integers(-130, 260, 2) * STEP * rng.choice([1, 0.37])
        wide, high = rng.choice([0.0, STEP / 3, 5 * STEP, 0.125, 0.3, 2.0, 20.0], 2)
        sides = np.clip([west, south, west + wide, south + high], [-180, -90] * 2, [180, 90] * 2)
        found.append("within:" + ",".join(repr(float(side)) for side in sides))
    return found


def queries(rng: np.random.Generator, count: int) -> list[str]:
    """More than a thousand ask for one word, so that it lies in the smallest cells; some ask for the same."""
    places = regions(rng, count * 3 // 4)
    drawn = [rng.choice(WORDS) + places[rng.integers(len(places))] for _ in range(count)]
    return [*drawn, *(f"cat {one} OR bird {other}" for one, other in zip(places[:90], places[20:110], strict=True))]


def posts(rng: np.random.Generator, asked: list[str]) -> list[ScanPost]:
    """On the corners of what is asked for, a hair beside them, and on the borders of cells."""
    boxes = [one.split("within:")[1].split() for one in asked if "within:" in one]
    sides = np.array([[float(side) for side in box[0].split(",")] for box in boxes])[:: len(boxes) // 90]
    corners = np.concatenate([sides[:, [0, 1]], sides[:, [2, 3]], sides[:, [0, 3]], np.array(CORNERS)])
    near = np.concatenate([corners, np.nextafter(corners, 0), np.nextafter(corners, 999), corners + STEP / 2])
    lons, lats = np.clip(near, [-180, -90], [180, 90]).T.tolist()
    texts = ["cat", "cat dog", "cat bird fish", "rare dog", ""]
    return [ScanPost(texts[n % len(texts)], lat, lon) for n, (lon, lat) in enumerate(zip(lons, lats, strict=True))]


@pytest.mark.parametrize("seed", [1, 2])
def test_entries_in_cells_match_as_by_brute_force_whoever_holds_them_and_whoever_is_gone(tmp_path, seed):
    rng = np.random.default_rng(seed)
    asked = queries(rng, 1_900)
    said = posts(rng, asked)
    table = pa.table({"id": np.arange(len(asked)), "query": asked})
    index, refused = create_index(tmp_path / "index", table)
    gone = rng.choice(len(asked), 200, replace=False)
    assert refused == ()
    parsed, _ = parse_rows(table["query"].combine_chunks(), None, np.arange(len(table)))
    expected = sorted(scan(said, parsed.values()))
    assert len(expected) > 1 << 14, "what is found must not fit the first buffers"
    assert match_index(index, said, 2_000) == expected
    changed, _ = change_index(index, table.slice(0, 300), pa.array(gone))
    left = set(range(len(asked))) - set(gone[gone >= 300].tolist())
    assert match_index(changed, said, 64) == [(row, post) for row, post in expected if row in left]


def test_all_kinds_of_lists_and_holders_are_among_them(tmp_path):
    asked = queries(np.random.default_rng(1), 1_900)
    index, _ = create_index(tmp_path / "index", pa.table({"id": np.arange(len(asked)), "query": asked}))
    segment = index.shard(0)[0].segment
    sizes = np.bincount((segment.cell_keys >> np.uint64(60)).astype(np.int64), minlength=3)
    lengths = np.diff(segment.cell_start.astype(np.int64)).reshape(-1, 2)
    held = np.bincount(np.diff(segment.holder_start.astype(np.int64)))
    assert sizes.min() > 10
    assert lengths.all(axis=1).any(), "lists with items of both kinds"
    assert held[1] > 100
    assert held[2:].sum() > 100, "entries of several holders"
    assert np.bincount(segment.holders).max() > 1, "holders of several entries"


def test_subscriptions_stand_in_the_order_of_their_entries(tmp_path):
    asked = queries(np.random.default_rng(1), 1_900)
    index, _ = create_index(tmp_path / "index", pa.table({"id": np.arange(len(asked)), "query": asked}))
    holders = index.shard(0)[0].segment.holders
    firsts = np.sort(np.unique(holders, return_index=True)[1])
    assert holders[firsts].tolist() == list(range(len(asked)))


def test_a_post_that_more_want_than_fit_is_found_whole(tmp_path):
    asked = ["cat within:0,0,1,1"] * 40_000 + ["cat within:0,0,1,2 OR dog within:0,0,1,1"] * 3
    index, _ = create_index(tmp_path / "index", pa.table({"id": np.arange(len(asked)), "query": asked}))
    live = index.shard(0)[0]
    received = index.receiver().receive(pa.array(["dog", "cat dog", "cat"]))
    matcher = FlatMatcher(live.segment, index.manifest.terms)
    for _ in range(2):
        hits = matcher.match(received, np.array([[0.5, 0.5]] * 3))
        assert hits.counts.tolist() == [3, 40_003, 40_003]
        assert hits.posts.tolist() == np.repeat([0, 1, 2], hits.counts).tolist()
        assert len(np.unique(hits.subscriptions[3 : 3 + 40_003])) == 40_003
    assert len(decompile(live.segment, live.removed)) == 40_006
