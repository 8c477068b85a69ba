"""While two plans are in use, every version finds what the scan finds, each match once, whatever is interrupted.

Old subscriptions move to the current plan in slices. In the middle of every slice subscriptions come and go, and the
process ends before a slice is complete, before it is published, or after it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.balance.test_migration import MATCHERS, MIXED_QUERIES, Stream, Workload, move_random_cells

from tidings.balance.spatial_fit import spatial_fitter
from tidings.balance.spatial_registry import SPATIAL_PARTITIONERS
from tidings.demo.generate import generate_posts, generate_queries
from tidings.failpoints import FailpointReached, arm
from tidings.index.builder import apply_changes, create_index, live_conjunctions, prepare_merge
from tidings.index.dual_plan import count_by_plan, prepare_dual_plan, prepare_slice
from tidings.index.manifest import PlanRecord, list_versions
from tidings.index.reader import Index
from tidings.matching.brute_force import RawPost, match_all
from tidings.plan.grid_lines import GridLines
from tidings.plan.load_model import WorkModel
from tidings.plan.space import Area, SpatialPlan
from tidings.query.parse import parse
from tidings.store import open_store
from tidings.stream.index_updater import IndexUpdater
from tidings.testing.pipeline import match_index, subscription_table

SUBSCRIPTIONS, SLICE = 90, 20


@pytest.fixture(scope="module")
def workload() -> Workload:
    generated = generate_posts(120, seed=17)
    rows = zip(*(generated.column(name).to_pylist() for name in ("text", "lat", "lon")), strict=True)
    return Workload([RawPost(*row) for row in rows], [*MIXED_QUERIES, *generate_queries(100, seed=17)])


@pytest.fixture
def stream(request, tmp_path, workload) -> Iterator[Stream]:
    """A stream with two plans of different kinds, the previous one after a local step."""
    name = request.param
    with open_store(tmp_path) as store:
        stream = Stream.start(workload, store, tmp_path, name, SUBSCRIPTIONS)
        other = SPATIAL_PARTITIONERS[SPATIAL_PARTITIONERS.index(name) - 1]
        fit = spatial_fitter(other, MATCHERS, lambda: workload.sample)

        def prepare(index: Index):
            plan = fit(index.vocabulary.terms(), live_conjunctions(index))
            return prepare_dual_plan(index, plan)

        stream.switch(lambda index: move_random_cells(index, np.random.default_rng(2)))
        stream.switch(prepare)
        yield stream


def folders(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if path.is_dir()}


def restart(stream: Stream) -> None:
    """Open the index again, as after a crash: what was not published is gone."""
    index = stream.updater.index
    stream.updater = IndexUpdater(stream.store, index.folder, index.manifest.plan)
    stream.updater.refresh()


def crash_in_slice(stream: Stream, where: str) -> None:
    """Prepare a slice, and end the process before it is complete, before it is published, or afterwards."""
    index = stream.updater.index
    if where == "during-slice":
        with arm("during-slice") as point, pytest.raises(FailpointReached):
            prepare_slice(index, SLICE)
        assert point.is_reached
    else:
        prepared = prepare_slice(index, SLICE).version
        if where == "after it was published":
            prepared.publish(index.version + 1)
    restart(stream)


@pytest.mark.parametrize("stream", SPATIAL_PARTITIONERS, indirect=True)
def test_slices_with_updates_and_crashes_find_what_the_scan_finds(stream):
    rng, pinned, slices = np.random.default_rng(8), {}, 0
    crashes = ["during-slice", "before it is published", "after it was published"]
    while stream.updater.index.manifest.plan.previous_file:
        assert stream.match() == stream.expected()
        pinned[stream.updater.index.version] = stream.match()
        crash_in_slice(stream, crashes[slices % 3])
        assert stream.match() == stream.expected()
        if stream.updater.index.manifest.plan.previous_file:
            stream.switch(lambda index: prepare_slice(index, SLICE).version)  # changes come while it is prepared
            assert stream.match() == stream.expected()
        stream.change(rng, 7, 9)
        stream.updater.refresh()
        slices += 1
    assert slices <= 5
    assert stream.match() == stream.expected()
    assert count_by_plan(stream.updater.index)[0] == 0
    for version, matches in pinned.items():  # a batch that is replayed uses the version that it began with
        assert match_index(stream.updater.open_version(version), stream.workload.posts, 40) == matches


@pytest.mark.parametrize("stream", SPATIAL_PARTITIONERS, indirect=True)
def test_cells_move_while_two_plans_are_in_use(stream):
    """Local steps change the current plan between the slices; the previous one stays as it is."""
    rng = np.random.default_rng(11)
    previous = stream.updater.index.manifest.plan.previous_file
    steps = 0
    while stream.updater.index.manifest.plan.previous_file:
        version = stream.updater.index.manifest.plan.version
        index = stream.switch(lambda index: move_random_cells(index, rng))
        assert index.manifest.plan.version == version + 1
        assert index.manifest.plan.previous_file == previous
        assert stream.match() == stream.expected()
        stream.switch(lambda index: prepare_slice(index, 2 * SLICE).version)
        assert stream.match() == stream.expected()
        stream.change(rng, 7, 9)
        stream.updater.refresh()
        assert stream.match() == stream.expected()
        steps += 1
    assert steps >= 2
    stream.switch(lambda index: move_random_cells(index, rng))
    assert stream.match() == stream.expected()


@pytest.mark.parametrize("stream", ["hybrid"], indirect=True)
def test_crashes_leave_no_files(stream):
    folder = stream.updater.index.folder
    before, versions = folders(folder), list_versions(folder)
    for where in ("during-slice", "before it is published"):
        crash_in_slice(stream, where)
        assert (folders(folder), list_versions(folder)) == (before, versions)


@pytest.mark.parametrize("stream", ["kdtree"], indirect=True)
def test_a_slice_moves_whole_subscriptions_and_only_as_many_as_wanted(stream):
    index = stream.updater.index
    step = prepare_slice(index, SLICE)
    assert step.moved == SLICE
    assert step.size_bytes > 0
    after = step.version.publish(index.version + 1)
    by_plan = [ids_of(after, is_previous) for is_previous in (True, False)]
    assert not by_plan[0] & by_plan[1]
    assert by_plan[0] | by_plan[1] == ids_of(index, True) | ids_of(index, False)
    assert len(by_plan[0]) == len(ids_of(index, True)) - SLICE
    assert after.manifest.subscriptions == index.manifest.subscriptions


def ids_of(index: Index, by_previous_plan: bool) -> set[int]:
    """Return the live subscriptions that a plan has placed."""
    views = [view for number in range(MATCHERS) for view in index.open_shard(number)]
    return {
        number
        for view in views
        if view.by_previous_plan == by_previous_plan
        for row, number in enumerate(view.segment.ids.to_pylist())
        if not len(view.removed) or not view.removed[row]
    }


@pytest.mark.parametrize("stream", ["kdtree"], indirect=True)
def test_the_last_subscription_ends_the_previous_plan_however_it_goes(stream):
    for number in list(stream.live):
        stream.store.subscriptions.remove(number)
        del stream.live[number]
    stream.change(np.random.default_rng(3), 30, 0)
    index = stream.updater.refresh()
    assert count_by_plan(index)[0] == 0
    assert index.manifest.plan.previous_file
    step = prepare_slice(index, SLICE)
    assert step.moved == 0
    stream.updater.index = index = step.version.publish(index.version + 1)
    assert not index.manifest.plan.previous_file
    assert stream.match() == stream.expected()


@pytest.mark.parametrize("stream", ["kdtree"], indirect=True)
def test_matches_pass_duplicate_removal_no_more_once_one_plan_is_left(stream):
    """A kd-tree shares no terms: with one plan, only subscriptions without a region are on several matchers."""
    while stream.updater.index.manifest.plan.previous_file:
        stream.switch(lambda index: prepare_slice(index, SLICE).version)
    index = stream.updater.index
    reference = prepare_merge(index).publish(index.version + 1)
    shared = [
        {
            number
            for shard in range(MATCHERS)
            for view in version.open_shard(shard)
            for number in np.array(view.segment.ids.to_pylist())[view.is_shared > 0].tolist()
            if number in stream.live
        }
        for version in (index, reference)
    ]
    assert shared[0] == shared[1]
    assert index.manifest.shared == reference.manifest.shared == bool(shared[0])


def test_a_post_that_both_plans_route_finds_a_subscription_on_two_matchers_once(tmp_path):
    """The previous plan divides the world into west and east, the current one into south and north."""
    areas = (Area((0,)), Area((1,)), Area((0, 1)))
    west_east, south_north = (
        SpatialPlan("kdtree", 2, 9, lines, np.array([0, 1], np.uint32), areas, WorkModel())
        for lines in (GridLines(np.zeros(1), np.zeros(0)), GridLines(np.zeros(0), np.zeros(1)))
    )
    queries = ["storm within:-10,-10,10,10", "storm within:-9,-9,9,9"]
    table, record = subscription_table(queries[:1]), PlanRecord("kdtree", 2, 7)
    index, _ = create_index(tmp_path / "index", table, record, fit=lambda terms, conjunctions: west_east)
    index = prepare_dual_plan(index, south_north).publish(index.version + 1)
    index, _ = apply_changes(index, subscription_table(queries[1:], [1]))
    posts = [RawPost("storm", lat, lon) for lat, lon in ((5, 5), (5, -5), (-5, 5), (-5, -5))]
    expected = sorted(match_all(posts, [parse(query) for query in queries]))
    assert match_index(index, posts, 10) == expected
    repeated = match_index(index, posts, 10, deduplicate=False)
    assert len(repeated) > len(expected) == len(set(repeated)), "otherwise this example shows nothing"
