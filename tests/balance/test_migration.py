"""Cells move between matchers while subscriptions change: the matches stay those of brute force under every plan.

The long test uses 100,000 subscriptions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.data import shared

from tidings.balance.rebalance.apply import apply_intents
from tidings.balance.rebalance.cell_load import add_work, measure_cells
from tidings.balance.rebalance.local_policy import CellLoad, Intent, LocalSettings, Move, SplitByText
from tidings.balance.rebalance.local_step import prepare_rebalancing
from tidings.balance.rebalance.measured_load import MeasuredLoad
from tidings.balance.rebalance.recent_cells import RecentCells
from tidings.balance.rebalance.shard_sample import sample_shards
from tidings.balance.spatial_fit import PostSample, spatial_fitter
from tidings.balance.spatial_registry import SPATIAL_PARTITIONERS
from tidings.demo.generate import generate_posts, generate_queries
from tidings.index.builder import UnpublishedVersion, live_conjunctions, prepare_merge
from tidings.index.dual_plan import count_by_plan, prepare_dual_plan
from tidings.index.manifest import PlanRecord
from tidings.index.migrate import prepare_migration
from tidings.index.plan_files import cached_spatial_plan
from tidings.index.reader import Index
from tidings.matching.brute_force import RawPost, match_all
from tidings.plan.space import SpatialPlan
from tidings.query.parse import parse
from tidings.routing.spatial_router import open_router
from tidings.routing.stats import RoutingStats
from tidings.store import Store, open_store
from tidings.stream.index_updater import IndexUpdater
from tidings.testing.pipeline import analyze_posts, match_index
from tidings_lab.spatial_workload import Tweets, draw_subscriptions

MATCHERS = 4
MIXED_QUERIES = [
    "within:-180,-90,180,90 -the",
    "near:40.7,-74,60",
    "rain OR storm OR near:25.8,-80.2,300",
    "(love OR night OR home) -within:-80,20,-60,45",
    "love",
    "good OR night",
]
Pairs = list[tuple[int, int]]


@dataclass
class Workload:
    """Posts, queries, and their matches by definition."""

    posts: list[RawPost]
    queries: list[str]
    matches: Pairs = field(init=False)

    def __post_init__(self) -> None:
        self.matches = sorted(match_all(self.posts, [parse(query) for query in self.queries]))

    @property
    def sample(self) -> PostSample:
        return to_sample(self.posts)


def to_sample(posts: list[RawPost]) -> PostSample:
    positions = [[np.nan if value is None else value for value in (post.lon, post.lat)] for post in posts]
    return pa.array([post.text for post in posts], pa.large_string()), np.array(positions, np.float64).reshape(-1, 2)


def load_real(posts: int, subscriptions: int, skip: int = 1000) -> tuple[list[RawPost], list[str]]:
    tweets = pq.read_table(shared("geo_tweets.parquet"), columns=["text", "lat", "lon"]).slice(skip, posts)
    drawn = draw_subscriptions("Q3", subscriptions - len(MIXED_QUERIES), Tweets.of(tweets), seed=3)
    boxes = [",".join(map(str, box)) for box in drawn.column("region").to_pylist()]
    queries = [f"({text}) within:{box}" for text, box in zip(drawn.column("query").to_pylist(), boxes, strict=True)]
    rows = zip(*(tweets.column(name).to_pylist() for name in ("text", "lat", "lon")), strict=True)
    return [RawPost(text or "", lat, lon) for text, lat, lon in rows], [*MIXED_QUERIES, *queries]


@pytest.fixture(scope="module", params=["generated", pytest.param("real", marks=pytest.mark.real_data)])
def workload(request) -> Workload:
    if request.param == "real":
        return Workload(*load_real(150, 130))
    generated = generate_posts(150, seed=13)
    rows = zip(*(generated.column(name).to_pylist() for name in ("text", "lat", "lon")), strict=True)
    return Workload([RawPost(*row) for row in rows], [*MIXED_QUERIES, *generate_queries(130, seed=13)])


@dataclass
class Stream:
    """An index that follows a store, and the query of each live subscription."""

    workload: Workload
    store: Store
    updater: IndexUpdater
    algorithm: str
    live: dict[int, int] = field(default_factory=dict)

    @classmethod
    def start(cls, workload: Workload, store: Store, folder: Path, algorithm: str, subscriptions: int) -> Stream:
        """Start with a plan that is learned from all posts."""
        record = PlanRecord(algorithm, MATCHERS, 7)
        stream = cls(workload, store, IndexUpdater(store, folder / "index", record), algorithm)
        stream.change(np.random.default_rng(1), subscriptions, 0)
        stream.updater.refresh()
        assert stream.updater.start_refresh(spatial_fitter(algorithm, MATCHERS, lambda: workload.sample))
        stream.updater.wait_for_build()
        assert stream.updater.refresh().manifest.plan.spatial_file
        return stream

    def change(self, rng: np.random.Generator, added: int, removed: int) -> None:
        for number in rng.permutation(list(self.live))[:removed].tolist():
            self.store.subscriptions.remove(number)
            del self.live[number]
        chosen = rng.integers(0, len(self.workload.queries), added).tolist()
        ids = self.store.subscriptions.add_many([(self.workload.queries[query],) for query in chosen])
        self.live |= dict(zip(ids, chosen, strict=True))

    def switch(self, prepare) -> Index:
        """Publish a version with a changed plan, while subscriptions change."""
        assert self.updater.start_build(prepare)
        self.change(np.random.default_rng(len(self.live)), 3, 2)
        self.updater.refresh()
        self.updater.wait_for_build()
        return self.updater.refresh()

    def learn(self, posts: slice) -> SpatialPlan:
        index = self.updater.index
        fit = spatial_fitter(self.algorithm, MATCHERS, lambda: to_sample(self.workload.posts[posts]))
        return fit(index.vocabulary.terms(), live_conjunctions(index))

    def expected(self) -> Pairs:
        by_query: dict[int, list[int]] = {}
        for query, post in self.workload.matches:
            by_query.setdefault(query, []).append(post)
        return sorted((number, post) for number, query in self.live.items() for post in by_query.get(query, []))

    def match(self) -> Pairs:
        return match_index(self.updater.index, self.workload.posts, 40)


SOME_PARTITIONERS = ["hybrid", "grid", "metric"]  # trees with and without shared terms, cells, terms only


@pytest.fixture
def stream(request, tmp_path, workload) -> Iterator[Stream]:
    with open_store(tmp_path) as store:
        yield Stream.start(workload, store, tmp_path, request.param, subscriptions=100)


def plan_in_use(index: Index) -> SpatialPlan:
    return cached_spatial_plan(index.folder / index.manifest.plan.spatial_file)


def move_random_cells(index: Index, rng: np.random.Generator) -> UnpublishedVersion:
    """Move some cells from one matcher to another, and split some of them by arbitrary terms."""
    plan = plan_in_use(index)
    source, target = rng.permutation(MATCHERS)[:2].tolist()
    areas = [*plan.area_of_cell.tolist(), plan.unlocated_area]
    cells = [cell for cell, area in enumerate(areas) if source in plan.areas[area].holders]
    terms = index.vocabulary.terms()
    rows, matchers = plan.matchers_of(terms)
    intents: list[Intent] = []
    for cell in rng.permutation(cells)[: rng.integers(1, 400)].tolist():
        own = np.flatnonzero(matchers[rows[areas[cell]]][1:] == source)
        if len(intents) > 3:
            intents.append(Move(cell, source, target, 1))
        else:
            given = tuple(terms[number] for number in rng.permutation(own)[: len(own) // 2].tolist())
            intents.append(SplitByText(cell, source, target, 1, given))
    return prepare_migration(index, apply_intents(plan, intents)).version


@pytest.mark.parametrize("stream", SPATIAL_PARTITIONERS, indirect=True)
def test_moving_cells_changes_no_match(stream):
    rng = np.random.default_rng(5)
    for _ in range(3):
        version = stream.updater.index.manifest.plan.version
        index = stream.switch(lambda index: move_random_cells(index, rng))
        assert index.manifest.plan.version == version + 1
        assert stream.match() == stream.expected()
        stream.change(rng, 12, 12)
        stream.updater.refresh()
        assert stream.match() == stream.expected()


@pytest.mark.parametrize("stream", SOME_PARTITIONERS, indirect=True)
def test_two_plans_find_each_match_once_until_old_subscriptions_have_moved(stream):
    rng = np.random.default_rng(6)
    first = stream.updater.index
    index = stream.switch(lambda index: prepare_dual_plan(index, stream.learn(slice(0, 100))))
    assert index.manifest.plan.previous_file
    assert index.manifest.plan.version == first.manifest.plan.version + 1
    before = count_by_plan(index)
    for _ in range(3):
        assert stream.match() == stream.expected()
        stream.change(rng, 20, 25)
        index = stream.updater.refresh()
    after = count_by_plan(index)
    assert after[0] < before[0]
    assert after[1] > before[1]
    index = stream.switch(prepare_merge)
    assert not index.manifest.plan.previous_file
    assert count_by_plan(index)[0] == 0
    assert stream.match() == stream.expected()


@pytest.mark.parametrize("stream", SOME_PARTITIONERS, indirect=True)
def test_version_before_a_migration_keeps_its_matches(stream):
    index, matches = stream.updater.index, stream.match()
    stream.switch(lambda index: move_random_cells(index, np.random.default_rng(7)))
    assert match_index(stream.updater.open_version(index.version), stream.workload.posts, 40) == matches


@pytest.mark.parametrize("stream", SOME_PARTITIONERS, indirect=True)
def test_repeated_merges_do_not_grow_the_index(stream):
    entries = []
    for _ in range(3):
        index = stream.updater.index
        stream.updater.index = index = prepare_merge(index).publish(index.version + 1)
        entries.append(sum(len(view.segment.second_term) for n in range(MATCHERS) for view in index.open_shard(n)))
    assert entries[0] == entries[1] == entries[2]


def measure_routing(index: Index, posts: list[RawPost]) -> RoutingStats:
    (_, batch, positions), *_ = analyze_posts(index.analyzer(), posts, len(posts))
    return RoutingStats.from_routed(open_router(index).route(batch, positions))


def measure_loads(index: Index, posts: list[RawPost]) -> list[float]:
    """Return the load of each matcher: the time that its cells take."""
    plan, stats = plan_in_use(index), measure_routing(index, posts)
    shards = sample_shards(index, plan)
    cells = measure_cells(shards, plan, stats.cells, stats.sent_by_cell)
    recent = RecentCells.build(index, plan, to_sample(posts))
    return sum_loads(add_work(cells, shards, recent, LocalSettings().work))


def sum_loads(matchers: dict[int, list[CellLoad]]) -> list[float]:
    return [float(sum(cell.load for cell in matchers[number])) for number in sorted(matchers)]


@pytest.mark.parametrize("stream", ["hybrid", "kdt", "kdtree"], indirect=True)
def test_work_per_cell_equals_counting_post_by_post(stream):
    index, posts = stream.updater.index, stream.workload.posts
    plan = plan_in_use(index)
    recent = RecentCells.build(index, plan, stream.workload.sample)
    bounds, terms = recent.workload.analyzed.bounds.tolist(), recent.workload.analyzed.terms
    post_terms = [{0, *terms[first:end].tolist()} for first, end in bounds]
    assert len(post_terms) == len(posts)
    rows = list(zip(recent.cells.tolist(), recent.workload.positions.tolist(), post_terms, strict=True))
    for shard in sample_shards(index, plan).values():
        hits = np.zeros(shard.cells + 1)
        lookups = np.zeros(shard.cells + 1)
        for cell, (lon, lat), contained in rows:
            lookups[cell] += len(contained & {*shard.anchors.tolist(), *shard.free_anchors.tolist()})
            row = int(shard.row_of_cell[cell])
            is_owned = shard.owns(row, shard.anchors)
            for (west, south, east, north), anchor, owned in zip(shard.boxes, shard.anchors, is_owned, strict=True):
                hits[cell] += owned and anchor in contained and west <= lon <= east and south <= lat <= north
            free = shard.free_anchors[shard.owns(row, shard.free_anchors)]
            hits[cell] += sum(anchor in contained for anchor in free.tolist())
        counts = np.bincount(recent.cells, minlength=shard.cells + 1)
        assert recent.count_work(shard).tolist() == [counts.tolist(), lookups.tolist(), hits.tolist()]


@pytest.mark.parametrize("name", ["hybrid", "kdtree"])
def test_uneven_loads_become_more_even(tmp_path, workload, name):
    """All posts come from the part of the world of one matcher."""
    with open_store(tmp_path) as store:
        stream = Stream.start(workload, store, tmp_path, name, subscriptions=130)
        index = stream.updater.index
        batch = next(iter(analyze_posts(index.analyzer(), workload.posts, len(workload.posts))))
        routed = open_router(index).route(*batch[1:])
        busiest = max(routed.batches, key=lambda batch: len(batch.posts))
        crowd = [workload.posts[number] for number in busiest.posts.tolist()]
        before = measure_loads(index, crowd)
        stats = measure_routing(index, crowd)
        measured = MeasuredLoad(stats.cells, stats.sent_by_cell)
        step = prepare_rebalancing(index, measured, to_sample(crowd), LocalSettings(sigma=1.2))
        assert step is not None
        assert (step.pairs[0][0], step.size_bytes > 0) == (int(np.argmax(before)), True)
        moved = step.prepared.publish(index.version + 1)
        after = measure_loads(moved, crowd)
        assert max(after) < max(before)
        assert np.std(after) < np.std(before)
        assert match_index(moved, workload.posts, 40) == stream.expected()


@pytest.mark.parametrize("stream", ["hybrid"], indirect=True)
def test_balanced_loads_are_not_changed(stream):
    index, sample = stream.updater.index, stream.workload.sample
    stats = measure_routing(index, stream.workload.posts)
    measured = MeasuredLoad(stats.cells, stats.sent_by_cell)
    assert prepare_rebalancing(index, measured, sample, LocalSettings(sigma=1e12)) is None


@pytest.mark.real_data
@pytest.mark.long
@pytest.mark.parametrize("name", SPATIAL_PARTITIONERS)
def test_100000_subscriptions_match_real_tweets_during_migrations(tmp_path: Path, name):
    """The replicated index is the reference: brute force would take days, and the contract compares both."""
    from tidings.index.builder import create_index

    posts, queries = load_real(4_000, 100_000, skip=20_000)
    rng = np.random.default_rng(9)
    with open_store(tmp_path) as store:
        live = dict(zip(store.subscriptions.add_many([(query,) for query in queries]), queries, strict=True))
        updater = IndexUpdater(store, tmp_path / "index", PlanRecord(name, MATCHERS, 7))
        updater.start_refresh(spatial_fitter(name, MATCHERS, lambda: to_sample(posts[:2_000])))
        for step in range(4):
            for number in rng.permutation(list(live))[:5_000].tolist():
                store.subscriptions.remove(number)
                del live[number]
            chosen = [queries[number] for number in rng.integers(0, len(queries), 5_000).tolist()]
            live |= dict(zip(store.subscriptions.add_many([(query,) for query in chosen]), chosen, strict=True))
            updater.wait_for_build()
            updater.refresh()
            if step:
                assert updater.start_build(lambda index: move_random_cells(index, rng))
                updater.wait_for_build()
                updater.refresh()
            table = pa.table({"id": pa.array(live), "query": pa.array(list(live.values()))})
            reference, _ = create_index(tmp_path / f"replicated-{step}", table)
            assert match_index(updater.index, posts, 1_000) == match_index(reference, posts, 1_000)
