"""Polygons and circles in an index: replicated, partitioned by a spatial plan, changed, merged."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from tests.contract.matchers import spatial_plan_fitter

from tidings.index.builder import apply_changes, create_index, merge_index
from tidings.index.manifest import PlanRecord
from tidings.matching.brute_force import RawPost, match_all
from tidings.query.geo.column import parse_region
from tidings.query.parse import parse
from tidings.query.table import region_from_column
from tidings.schemas import REGION_TYPE
from tidings.store import open_store
from tidings.stream.index_updater import IndexUpdater
from tidings.testing.pipeline import match_index

WORDS = ["", "cat", "cat OR dog", "dog -cat", "near:5,5,900", "cat near:5,5,900"]


def ring(lon: float, lat: float, corners: int, size: float) -> list[list[float]]:
    turns = [2 * math.pi * n / corners for n in range(corners)]
    points = [[lon + size * (1 + n % 2) * math.cos(t), lat + size * math.sin(t)] for n, t in enumerate(turns)]
    return [*points, points[0]]


def subscriptions() -> pa.Table:
    """Every kind of query with a polygon, two polygons with a hole, a rectangle, and no region."""
    polygon = {"type": "Polygon", "coordinates": [ring(5, 5, 7, 3)]}
    several = {"type": "MultiPolygon", "coordinates": [[ring(-20, 0, 5, 6), ring(-20, 0, 4, 1)], [ring(170, 60, 9, 4)]]}
    regions = [parse_region(shape) for shape in (polygon, several, [0, 0, 9, 9])] + [None]
    rows = [(words, region) for words in WORDS for region in regions if words or region]
    queries, columns = zip(*rows, strict=True)
    return pa.table({"id": range(len(rows)), "query": pa.array(queries), "region": pa.array(columns, REGION_TYPE)})


def posts() -> list[RawPost]:
    rng = np.random.default_rng(4)
    around = [(5, 5), (0, -20), (60, 170), (0, 0)]
    found = [
        RawPost(text, lat + float(rng.normal(0, 4)), lon + float(rng.normal(0, 4)))
        for text in ("cat", "dog", "cat dog", "")
        for lat, lon in around
        for _ in range(25)
    ]
    return [*found, RawPost("cat"), RawPost("dog", 5.0, 5.0)]


@pytest.mark.parametrize("name", [None, "hybrid", "kdtree", "rtree"])
@pytest.mark.parametrize("merged", [False, True])
def test_regions_of_every_shape_match_like_brute_force(tmp_path, name, merged):
    table, raw_posts = subscriptions(), posts()
    plan, space = (PlanRecord(name, 3, 7), spatial_plan_fitter(name, raw_posts, 3)) if name else (None, None)
    index, invalid = create_index(tmp_path / "index", table.slice(0, 12), plan, space)
    index, more_invalid = apply_changes(index, table.slice(12), pa.array([3], pa.int64()))
    assert invalid == more_invalid == ()
    parsed = [parse(row["query"], region_from_column(row["region"])) for row in table.to_pylist()]
    expected = sorted((row, post) for row, post in match_all(raw_posts, parsed) if row != 3)
    assert len(expected) > 500
    assert match_index(merge_index(index) if merged else index, raw_posts, 64) == expected


def test_polygons_are_stored_and_indexed(tmp_path):
    table, raw_posts = subscriptions(), posts()
    rows = [
        (query, "", None if region is None else tuple(region))
        for query, region in zip(table["query"].to_pylist(), table["region"].to_pylist(), strict=True)
    ]
    parsed = [parse(row["query"], region_from_column(row["region"])) for row in table.to_pylist()]
    expected = sorted((row + 1, post) for row, post in match_all(raw_posts, parsed))
    with open_store(tmp_path) as store:
        store.subscriptions.add_many(rows[:10])
        updater = IndexUpdater(store, tmp_path / "index", PlanRecord("hybrid", 3, 7))
        updater.start_refresh(spatial_plan_fitter("hybrid", raw_posts, 3))
        updater.wait_for_build()
        store.subscriptions.add_many(rows[10:])
        assert match_index(updater.refresh(), raw_posts, 64) == expected
        assert [subscription.region for subscription in store.subscriptions.all()] == [region for _, _, region in rows]
