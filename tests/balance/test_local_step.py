"""Local rebalancing steps on real indexes: no match is lost or repeated, loads become more even, bytes are real."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from tests.balance.test_migration import (
    MATCHERS,
    MIXED_QUERIES,
    Stream,
    Workload,
    move_random_cells,
    plan_in_use,
    to_sample,
)

from tidings.balance.rebalance.apply import apply_intents
from tidings.balance.rebalance.cell_load import measure_loads
from tidings.balance.rebalance.cell_selection import SELECTORS
from tidings.balance.rebalance.grid_refinement import MAX_LINES, refine_grid, refine_measured
from tidings.balance.rebalance.local_policy import LocalSettings, Move, SplitByText
from tidings.balance.rebalance.local_step import LocalRebalancing, prepare_rebalancing
from tidings.balance.rebalance.measured_load import LoadWindow, MeasuredLoad
from tidings.balance.rebalance.recent_cells import RecentCells
from tidings.balance.rebalance.shard_sample import sample_shards
from tidings.balance.work_model import WorkModel
from tidings.index.builder import prepare_merge
from tidings.index.dual_plan import prepare_dual_plan
from tidings.index.migrate import prepare_migration
from tidings.index.plan_change import find_cells_in
from tidings.index.reader import Index
from tidings.index.shard_merge import list_divided_shards, prepare_shard_merge
from tidings.matching.brute_force import RawPost
from tidings.matching.load import MatcherLoad
from tidings.plan.grid_lines import GridLines
from tidings.routing.spatial_router import open_router
from tidings.routing.stats import RoutingStats
from tidings.store import open_store
from tidings.testing.contract import town_workload
from tidings.testing.pipeline import analyze_posts

QUERIES, POSTS = town_workload(seed=3, count=400)
FREE_QUERIES = [f"w{number}" for number in range(1, 60)]
UNLOCATED = [RawPost(post.text) for post in POSTS]


@pytest.fixture(scope="module")
def workload() -> Workload:
    return Workload([*POSTS[:200], *UNLOCATED[:60]], [*MIXED_QUERIES, *QUERIES[:150], *FREE_QUERIES])


@pytest.fixture
def stream(request, tmp_path, workload) -> Iterator[Stream]:
    with open_store(tmp_path) as store:
        yield Stream.start(workload, store, tmp_path, request.param, subscriptions=160)


def measure(index: Index, posts: list[RawPost], updates: int = 0) -> MeasuredLoad:
    """Route posts; the time of a matcher is that of its posts and of what these match there."""
    (_, batch, positions), *_ = analyze_posts(index.analyzer(), posts, len(posts))
    routed = open_router(index).route(batch, positions)
    stats = RoutingStats.from_routed(routed)
    seconds = [float(len(part.posts)) for part in (routed.batches)]
    by_matcher = dict(zip((part.matcher for part in routed.batches), seconds, strict=True))
    return MeasuredLoad(
        stats.cells, stats.sent_by_cell, tuple(by_matcher.get(number, 0.0) for number in range(MATCHERS)), updates
    )


def step(stream: Stream, posts: list[RawPost], settings: LocalSettings) -> LocalRebalancing | None:
    """Take a step, while subscriptions change."""
    results: list[LocalRebalancing | None] = []

    def prepare(index: Index):
        results.append(prepare_rebalancing(index, measure(index, posts), to_sample(posts), settings))
        return None if results[0] is None else results[0].prepared

    stream.switch(prepare)
    return results[0]


def crowd_around(post: RawPost, count: int = 60) -> list[RawPost]:
    """Return posts close to each other, all in one cell or few."""
    rng = np.random.default_rng(4)
    texts = [POSTS[number].text for number in rng.integers(0, len(POSTS), count).tolist()]
    places = np.array([post.lat, post.lon]) + rng.normal(0, 0.01, (count, 2))
    return [RawPost(text, lat, lon) for text, (lat, lon) in zip(texts, places.tolist(), strict=True)]


@pytest.mark.parametrize(
    ("stream", "selector"),
    [*(("hybrid", name) for name in SELECTORS), *((name, "gr") for name in ("kdt", "kdtree", "grid", "metric"))],
    indirect=["stream"],
)
def test_matches_stay_those_of_the_scan_after_any_sequence_of_steps(stream, selector):
    rng = np.random.default_rng(8)
    rules = LocalSettings(sigma=1.01, min_gain=0.01, selector=selector, seed=5)
    taken = 0
    for number in range(5):
        crowd = [crowd_around(POSTS[number]), UNLOCATED[:80], POSTS[:50]][number % 3]
        taken += step(stream, crowd, rules) is not None
        assert stream.match() == stream.expected()
        if number % 2:
            stream.switch(lambda index: prepare_shard_merge(index, list_divided_shards(index)))
            assert stream.match() == stream.expected()
        stream.change(rng, 15, 15)
        stream.updater.refresh()
        if number == 2:
            stream.switch(prepare_merge)
        assert stream.match() == stream.expected()
    assert taken >= 2


def count_received(index: Index, posts: list[RawPost]) -> list[int]:
    """Return the posts that each matcher receives."""
    (_, batch, positions), *_ = analyze_posts(index.analyzer(), posts, len(posts))
    parts = {part.matcher: len(part.posts) for part in open_router(index).route(batch, positions).batches}
    return [parts.get(number, 0) for number in range(MATCHERS)]


@pytest.mark.parametrize("stream", ["kdtree"], indirect=True)
def test_crowd_in_one_cell_is_distributed_over_all_matchers_in_one_step(stream):
    crowd = crowd_around(POSTS[0], 400)
    before = count_received(stream.updater.index, crowd)
    assert sorted(before)[:3] == [0, 0, 0]
    done = step(stream, crowd, LocalSettings())
    assert done is not None
    assert len(done.pairs) == 3
    after = count_received(stream.updater.index, crowd)
    assert max(after) < 0.5 * max(before)
    assert stream.match() == stream.expected()


@pytest.mark.parametrize("stream", ["kdtree"], indirect=True)
def test_crowd_at_one_point_is_distributed_by_terms(stream):
    crowd = [RawPost(post.text, POSTS[0].lat, POSTS[0].lon) for post in POSTS]
    before = count_received(stream.updater.index, crowd)
    done = step(stream, crowd, LocalSettings())
    assert done is not None
    assert (done.cells["moved"], done.cells["split"] > 1) == (0, True)
    after = count_received(stream.updater.index, crowd)
    assert max(after) < max(before)
    assert sum(count > 0 for count in after) == MATCHERS
    assert stream.match() == stream.expected()


@pytest.mark.parametrize("stream", ["kdtree"], indirect=True)
def test_posts_without_a_position_are_measured_and_moved(stream):
    rare = [RawPost(f"w{number}") for number in range(1, 60) for _ in range(5)]
    index = stream.updater.index
    owner = measure(index, rare).seconds
    busiest = int(np.argmax(owner))
    only = [post for post in rare if count_received(index, [post])[busiest]]
    assert count_received(index, only)[busiest] == len(only)
    done = step(stream, only, LocalSettings())
    assert done is not None
    assert {intent.cell for intent in done.intents} == {len(plan_in_use(index).area_of_cell)}
    assert max(count_received(stream.updater.index, only)) < 0.6 * len(only)
    assert stream.match() == stream.expected()


def files_of(index: Index) -> dict[str, int]:
    return {str(path): path.stat().st_size for path in index.folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("stream", ["kdtree"], indirect=True)
def test_migration_writes_what_moves_and_reports_these_bytes(stream):
    index = stream.updater.index
    plan = plan_in_use(index)
    source, target = 3, 1
    cells = np.flatnonzero(np.array([source in plan.areas[area].holders for area in plan.area_of_cell.tolist()]))
    intents = [Move(int(cell), source, target, 1) for cell in cells[: len(cells) // 2]]
    before = files_of(index)
    migration = prepare_migration(index, apply_intents(plan, intents))
    moved = migration.version.publish(index.version + 1)
    new = {path: size for path, size in files_of(moved).items() if path not in before}
    assert migration.size_bytes == sum(size for path, size in new.items() if "manifest" not in path)
    shards, after = index.manifest.shards, moved.manifest.shards
    assert [shards[number] == after[number] for number in range(MATCHERS)] == [True, False, True, False]
    assert [record.folder for record in after[source]] == [record.folder for record in shards[source]]
    assert after[target][: len(shards[target])] == shards[target]
    removed = after[source][0].removed_count - shards[source][0].removed_count
    added = sum(record.subscriptions for record in after[target]) - sum(r.subscriptions for r in shards[target])
    assert 0 < removed < shards[source][0].subscriptions
    assert migration.subscriptions == added >= removed  # those on a border stay with the source too


@pytest.mark.parametrize("stream", ["kdtree", "hybrid"], indirect=True)
def test_cells_move_while_two_plans_are_in_use(stream):
    rng = np.random.default_rng(6)
    stream.switch(lambda index: prepare_dual_plan(index, stream.learn(slice(0, 100))))
    for number in range(3):
        stream.change(rng, 20, 10)
        stream.updater.refresh()
        index = stream.switch(lambda index: move_random_cells(index, rng))
        assert index.manifest.plan.previous_file
        assert stream.match() == stream.expected()
        if number == 1:
            stream.switch(lambda index: prepare_shard_merge(index, list_divided_shards(index)))
            assert stream.match() == stream.expected()
    stream.switch(prepare_merge)
    assert stream.match() == stream.expected()


@pytest.mark.parametrize("stream", ["kdtree", "hybrid"], indirect=True)
def test_merged_shards_have_one_segment_and_the_same_matches(stream):
    rng = np.random.default_rng(2)
    for _ in range(2):
        stream.switch(lambda index: move_random_cells(index, rng))
    index = stream.updater.index
    numbers = list_divided_shards(index)
    assert numbers
    merged = prepare_shard_merge(index, numbers[:-1]).publish(index.version + 1)
    assert list_divided_shards(merged) == numbers[-1:]
    assert all(record.removed_count == 0 for number in numbers[:-1] for record in merged.manifest.shards[number])
    assert merged.manifest.shards[numbers[-1]] == index.manifest.shards[numbers[-1]]
    stream.updater.index = merged
    assert stream.match() == stream.expected()


@pytest.mark.parametrize("stream", ["kdtree"], indirect=True)
def test_plan_with_the_same_areas_moves_nothing(stream):
    index = stream.updater.index
    plan = plan_in_use(index)
    lines = GridLines(np.sort(np.append(plan.lines.lons, [1.5, 2.5])), np.sort(np.append(plan.lines.lats, [3.25])))
    finer = type(plan)(
        plan.algorithm, plan.matchers, plan.posts, lines, plan.area_of_cell[find_cells_in(plan.lines, lines)],
        plan.areas, plan.model,
    )  # fmt: skip
    migration = prepare_migration(index, finer)
    moved = migration.version.publish(index.version + 1)
    assert (migration.subscriptions, moved.manifest.shards) == (0, index.manifest.shards)
    assert count_received(moved, stream.workload.posts) == count_received(index, stream.workload.posts)


@pytest.mark.parametrize("stream", ["kdtree", "hybrid"], indirect=True)
def test_sizes_of_cells_count_each_subscription_once(stream):
    index = stream.updater.index
    for shard in sample_shards(index, plan_in_use(index)).values():
        counts, once = shard.count_per_cell()
        rows, columns = np.divmod(np.arange(shard.cells), shard.plan.lines.columns)
        covering = np.zeros(shard.cells)
        by_part = np.zeros(shard.cells)
        for (left, low, right, high), anchor in zip(shard.ranges.tolist(), shard.anchors.tolist(), strict=True):
            is_inside = (left <= columns) & (columns <= right) & (low <= rows) & (rows <= high)
            is_held = is_inside & (shard.matchers[shard.row_of_cell[:-1], anchor] == shard.matcher)
            covering += is_held
            by_part += is_held / max(1, np.count_nonzero(is_held))
        assert counts.tolist() == covering.tolist()
        assert np.allclose(once, by_part)
        assert once.sum() <= len(shard.anchors) + 1e-6


@pytest.mark.parametrize("stream", ["kdtree"], indirect=True)
def test_seconds_of_a_matcher_are_distributed_over_its_cells(stream):
    index, posts = stream.updater.index, [*POSTS[:100], *UNLOCATED[:50]]
    plan, measured = plan_in_use(index), measure(index, posts)
    arguments = (sample_shards(index, plan), plan)
    recent = RecentCells.build(index, plan, to_sample(posts))
    timed = replace(measured, seconds=(1.0, 2.0, 0.5, 4.0))
    loads = measure_loads(*arguments, timed, recent, WorkModel())
    assert np.allclose([sum(cell.load for cell in loads[number]) for number in range(MATCHERS)], timed.seconds)
    nowhere = len(plan.area_of_cell)
    unlocated = {number for number in loads for cell in loads[number] if cell.cell == nowhere and cell.load > 0}
    assert unlocated == {key % MATCHERS for key in measured.cells.tolist() if key // MATCHERS == nowhere}
    assert unlocated
    with_updates = measure_loads(*arguments, replace(timed, updates=1_000_000), recent, WorkModel())
    for before, after in zip(loads[0], with_updates[0], strict=True):  # updates outweigh posts: load follows size
        share = before.size_bytes / sum(cell.size_bytes for cell in loads[0])
        assert np.isclose(after.load, share, rtol=0.05, atol=0.01)


def test_cells_of_a_finer_grid_are_found_in_the_coarse_one():
    coarse, fine = GridLines(np.array([10.0]), np.array([0.0])), GridLines(np.array([5.0, 10.0]), np.array([0.0, 20.0]))
    assert find_cells_in(coarse, fine).tolist() == [0, 0, 1, 2, 2, 3, 2, 2, 3]


@pytest.mark.parametrize("stream", ["kdtree"], indirect=True)
def test_refined_grid_divides_the_posts_of_a_cell_and_keeps_their_sum(stream):
    index, crowd = stream.updater.index, crowd_around(POSTS[0], 64)
    plan, measured = plan_in_use(index), measure(index, [*crowd, *POSTS[:50], *UNLOCATED[:9]])
    recent = RecentCells.build(index, plan, to_sample(crowd))
    cell = int(np.bincount(recent.cells).argmax())
    finer = refine_grid(plan, recent, [cell])
    assert finer.lines.columns == plan.lines.columns + 3
    assert finer.lines.rows == plan.lines.rows + 3
    assert keeps_areas(plan, finer)
    fine_recent = recent.with_plan(finer)
    inside = np.bincount(fine_recent.cells[recent.cells == cell])
    assert inside.max() <= np.count_nonzero(recent.cells == cell) / 3
    fine = refine_measured(measured, plan, finer, fine_recent)
    for matcher in range(MATCHERS):
        totals = [some.sent_by_cell[some.cells % MATCHERS == matcher].sum() for some in (measured, fine)]
        assert np.isclose(*totals)
    located = fine.cells // MATCHERS < len(finer.area_of_cell)
    assert np.isclose(fine.sent_by_cell[~located].sum(), 9 * spread_of_unlocated(index))
    parents = np.append(find_cells_in(plan.lines, finer.lines), len(plan.area_of_cell))[fine.cells // MATCHERS]
    sums = np.bincount(parents * MATCHERS + fine.cells % MATCHERS, fine.sent_by_cell)
    assert np.allclose(sums[measured.cells], measured.sent_by_cell)


def keeps_areas(plan, finer) -> bool:
    """Whether every cell of the finer grid has the area of the cell that it lies in."""
    parents = find_cells_in(plan.lines, finer.lines)
    return bool((finer.area_of_cell == plan.area_of_cell[parents]).all())


def spread_of_unlocated(index: Index) -> float:
    return sum(count_received(index, UNLOCATED[:9])) / 9


@pytest.mark.parametrize("stream", ["kdtree"], indirect=True)
def test_grid_is_not_refined_without_need(stream):
    index = stream.updater.index
    plan = plan_in_use(index)
    point = [RawPost(post.text, 40.0, -74.0) for post in POSTS]
    recent = RecentCells.build(index, plan, to_sample(point))
    assert refine_grid(plan, recent, np.unique(recent.cells).tolist()) is plan, "all posts are at one point"
    few = RecentCells.build(index, plan, to_sample(POSTS[:5]))
    assert refine_grid(plan, few, np.unique(few.cells).tolist()) is plan, "too few posts"
    crowds = [RawPost("w1", 40 + 0.001 * n, -74 + 0.001 * n) for n in range(2000)]
    for _ in range(10):
        recent = RecentCells.build(index, plan, to_sample(crowds))
        plan = refine_grid(plan, recent, np.unique(recent.cells).tolist())
    assert len(plan.lines.lons) <= MAX_LINES
    assert len(plan.lines.lats) <= MAX_LINES


def test_window_sums_seconds_posts_and_updates():
    window = LoadWindow(min_posts=1_000)
    for number in range(200):  # more than the window keeps apart
        stats = RoutingStats(spread=np.array([0, 3]), cells=np.array([4, 7]), sent_by_cell=np.array([1, number]))
        window.add(stats, [MatcherLoad(0, 1, 0, 0.5), MatcherLoad(1, 1, 0, 0.25)], 10 + 2 * number)
    measured = window.measured()
    assert (measured.cells.tolist(), measured.sent_by_cell.tolist()) == ([4, 7], [200, 199 * 100])
    assert (measured.seconds, measured.updates, window.is_complete) == ((100.0, 50.0), 398, False)
    for _ in range(2):
        window.add(RoutingStats(spread=np.array([0, 200])), [], 500)
    assert window.is_complete


def test_slow_first_batch_does_not_count():
    window = LoadWindow(min_posts=40)
    for number in range(4):
        assert not window.is_complete
        seconds = (6.0 if number == 0 else 1.0, 2.0)
        loads = [MatcherLoad(matcher, 5, 0, seconds[matcher]) for matcher in range(2)]
        window.add(RoutingStats(spread=np.array([0, 10])), loads, 0)
    assert (window.seconds, window.is_complete) == ((4.0, 8.0), True)


def test_small_batches_are_measured_together():
    """A matcher that gets posts in every second batch only has not stood still."""
    window = LoadWindow(min_posts=40)
    for number in range(40):
        window.add(RoutingStats(spread=np.array([0, 1])), [MatcherLoad(number % 2, 1, 0, 1.0 + number % 2)], 0)
    assert window.seconds == (20.0, 40.0)


@pytest.mark.parametrize("stream", ["kdtree"], indirect=True)
def test_half_of_the_terms_of_a_cell_are_split_by_hand(stream):
    """The terms that a split names change their matcher in one cell; all else stays."""
    index = stream.updater.index
    plan = plan_in_use(index)
    cell = int(
        plan.lines.row(np.array([POSTS[0].lat]))[0] * plan.lines.columns
        + plan.lines.column(np.array([POSTS[0].lon]))[0]
    )
    source = plan.areas[plan.area_of_cell[cell]].matchers[0]
    target = (source + 1) % MATCHERS
    split = apply_intents(plan, [SplitByText(cell, source, target, 1, (b"w1", b"w2"))])
    area = split.areas[split.area_of_cell[cell]]
    assert (area.matchers, area.matcher_of_term, area.is_shared) == ((source,), {b"w1": target, b"w2": target}, True)
    assert area.holders == {source, target}
    assert (np.delete(split.area_of_cell, cell) == np.delete(plan.area_of_cell, cell)).all()
    back = apply_intents(split, [Move(cell, source, target, 1)])
    assert back.areas[back.area_of_cell[cell]].holders == {target}
    assert not back.areas[back.area_of_cell[cell]].is_shared
