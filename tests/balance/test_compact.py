"""A compacted plan sends every post and every subscription where the plan did, and does not grow with local steps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.balance.spatial_fit import spatial_fitter
from tidings.index.builder import UnpublishedVersion
from tidings.index.manifest import PlanRecord
from tidings.index.migrate import prepare_migration
from tidings.index.plan_files import cached_spatial_plan
from tidings.index.reader import Index
from tidings.plan.compact import compact, is_worth_compacting
from tidings.plan.grid_lines import GridLines
from tidings.plan.load_model import WorkModel
from tidings.plan.space import Area, SpatialPlan
from tidings.store import open_store
from tidings.stream.index_updater import IndexUpdater
from tidings.testing.contract import town_workload
from tidings.testing.pipeline import match_index, post_positions

MATCHERS = 3
TERMS = [b"cat", b"dog", b"fish", b"bird"]
AREAS = [
    Area((0,)),
    Area((1,)),
    Area((2,)),
    Area((0,), {}, 1),
    Area((0, 1)),
    Area((0, 1), {b"cat": 0, b"dog": 1}),
    Area((1, 1), {b"cat": 2}),
    Area((1, 1), {b"cat": 1}),
    Area((0, 1), {b"cat": 0, b"dog": 1}, 2),
]


@st.composite
def plans(draw) -> SpatialPlan:
    """Plans whose cells and areas are often equal."""
    columns, rows = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    areas = draw(st.lists(st.sampled_from(AREAS), min_size=1, max_size=6))
    by_cell = st.lists(st.integers(0, len(areas) - 1), min_size=columns, max_size=columns)
    by_row = draw(st.lists(by_cell, min_size=1, max_size=2))
    cells = [by_row[draw(st.integers(0, len(by_row) - 1))] for _ in range(rows)]
    lines = GridLines(np.arange(1.0, columns), np.arange(1.0, rows))
    unlocated = draw(st.sampled_from([Area((0, 1, 2)), Area((0, 1, 2), {b"cat": 1, b"dog": 0})]))
    return SpatialPlan("kdt", MATCHERS, 9, lines, np.array(cells, np.uint32).ravel(), (*areas, unlocated), WorkModel())


def matchers_at(plan: SpatialPlan, area: np.ndarray) -> list[list[int]]:
    """Return the matcher of "no term" and of each term in these areas."""
    row_of, matchers = plan.matchers_of(TERMS)
    return matchers[row_of[area]].tolist()


def assert_routes_alike(plan: SpatialPlan, other: SpatialPlan) -> None:
    rng = np.random.default_rng(4)
    points = np.concatenate([rng.uniform(-1, 7, (200, 2)), rng.integers(0, 7, (100, 2)).astype(float)])
    by_point, by_box = [], []
    corners = np.sort(np.stack([points[:100], points[100:200]], axis=1), axis=1).reshape(-1, 4)
    for each in (plan, other):
        cells = each.lines.row(points[:, 1]) * each.lines.columns + each.lines.column(points[:, 0])
        by_point.append(matchers_at(each, each.area_of_cell[cells]))
        areas, boxes = each.areas_of(corners, np.arange(len(corners)))
        pairs = zip(boxes.tolist(), map(tuple, matchers_at(each, areas)), strict=True)
        by_box.append(set(pairs))
        by_point.append(matchers_at(each, np.array([each.unlocated_area])))
    assert by_point[:2] == by_point[2:]
    assert by_box[0] == by_box[1]


@settings(max_examples=150, deadline=None)
@given(plan=plans(), max_lines=st.integers(0, 5))
def test_compact_plans_route_alike_and_have_nothing_to_remove(plan, max_lines):
    small = compact(plan, max_lines)
    assert_routes_alike(plan, small)
    assert len(small.areas) <= len(plan.areas)
    assert len(set(small.area_of_cell.tolist())) == len(small.areas) - 1
    keys = [(area.matchers, tuple(sorted(area.matcher_of_term.items()))) for area in small.areas[:-1]]
    assert len(set(keys)) == len(keys)
    assert compact(small, max_lines) is small


def test_an_example_by_hand():
    """Nine cells: the middle and the right column are equal, and so are two areas; one term is hashed alike anyway."""
    areas = (Area((0,)), Area((1,)), Area((0,), {}, 1), Area((2,)), Area((0, 1, 2)))
    lines = GridLines(np.array([1.0, 5.0]), np.array([1.0, 2.0]))
    plan = SpatialPlan("kdt", 3, 9, lines, np.array([0, 1, 1, 2, 1, 1, 0, 1, 1], np.uint32), areas, WorkModel())
    small = compact(plan, max_lines=0)
    assert small.areas == (Area((0,)), Area((1,)), Area((0, 1, 2)))
    assert (small.lines.lons.tolist(), small.lines.lats.tolist()) == ([1.0], [])
    assert small.area_of_cell.tolist() == [0, 1]
    assert compact(plan, max_lines=2).area_of_cell.tolist() == [0, 1, 1] * 3


def test_redundant_lines_with_most_space_around_them_stay():
    lines = GridLines(np.array([0.0, 10.0, 10.1, 10.2, 20.0, 30.0]), np.zeros(0))
    plan = SpatialPlan("kdt", 2, 9, lines, np.zeros(7, np.uint32), (Area((0,)), Area((0, 1))), WorkModel())
    assert compact(plan, max_lines=3).lines.lons.tolist() == [0.0, 20.0, 30.0]


def grow(plan: SpatialPlan, steps: int) -> SpatialPlan:
    """Return a plan as local steps leave it: with areas that nothing or too much refers to."""
    areas = [*plan.areas[:-1], *(Area(plan.areas[0].matchers[:1]) for _ in range(steps)), plan.areas[-1]]
    cells = plan.area_of_cell.copy()
    mine = np.flatnonzero(cells == 0)
    cells[mine[:steps]] = np.arange(len(plan.areas) - 1, len(plan.areas) - 1 + len(mine[:steps]))
    return replace(plan, area_of_cell=cells, areas=tuple(areas))


def grow_index(index: Index) -> UnpublishedVersion:
    """Prepare a version whose plan has 300 areas more."""
    return prepare_migration(index, grow(plan_of(index), 300)).version


def plan_of(index: Index) -> SpatialPlan:
    return cached_spatial_plan(index.folder / index.manifest.plan.spatial_file)


def test_a_stream_merges_when_its_plan_has_grown(tmp_path):
    queries, posts = town_workload(count=100)
    texts = pa.array([post.text for post in posts], pa.large_string())
    with open_store(tmp_path) as store:
        store.subscriptions.add_many([(query,) for query in queries])
        updater = IndexUpdater(store, tmp_path / "index", PlanRecord("kdtree", MATCHERS, 7))
        updater.refresh()
        updater.start_refresh(spatial_fitter("kdtree", MATCHERS, lambda: (texts, post_positions(posts))))
        updater.wait_for_build()
        first = updater.refresh()
        assert not is_worth_compacting(plan_of(first))
        updater.start_build(grow_index)
        updater.wait_for_build()
        grown = updater.refresh()
        assert is_worth_compacting(plan_of(grown))
        assert len(plan_of(grown).areas) > 300
        updater.wait_for_build()
        merged = updater.refresh()
        assert len(plan_of(merged).areas) <= MATCHERS + 1
        assert merged.manifest.plan.version == grown.manifest.plan.version + 1
        assert match_index(merged, posts, 50) == match_index(grown, posts, 50) == match_index(first, posts, 50) != []
        updater.wait_for_build()
        assert updater.refresh().version == merged.version, "once is enough"
