"""Cells change hands while subscriptions come and go: whatever the plan and however it is changed, the scan's matches.

The long test does it with 100,000 subscriptions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.contract.matchers import match_index, received
from tests.data import SHARED, shared

from tidings.balance.rebalance.apply import applied
from tidings.balance.rebalance.cell_load import Recent, cell_loads, held_by
from tidings.balance.rebalance.global_step import shares
from tidings.balance.rebalance.local_policy import Intent, LocalSettings, Move, SplitByText
from tidings.balance.rebalance.local_step import rebalanced
from tidings.balance.spatial_fit import Located, learn_space
from tidings.balance.spatial_registry import SPACE_PARTITIONERS
from tidings.demo.generate import generate_posts, generate_queries
from tidings.index.builder import Prepared, prepare_beside, prepare_merge, subscribed_now
from tidings.index.manifest import PlanRecord
from tidings.index.migrate import prepare_moved
from tidings.index.reader import Index
from tidings.index.spatial_shards import space_plan
from tidings.matching.brute_force import ScanPost, scan
from tidings.plan.space import SpacePlan
from tidings.query.parse import parse
from tidings.routing.spatial_router import open_router
from tidings.routing.stats import Noted
from tidings.store import Store, open_store
from tidings.stream.index_updater import Follower
from tidings_lab.spatial_workload import Tweets, draw_subscriptions

WORKERS = 4
MIXED = [
    "within:-180,-90,180,90 -the",
    "near:40.7,-74,60",
    "rain OR storm OR near:25.8,-80.2,300",
    "(love OR night OR home) -within:-80,20,-60,45",
    "love",
    "good OR night",
]
Pairs = list[tuple[int, int]]


@dataclass
class World:
    """Posts, queries, and which of them match by definition."""

    posts: list[ScanPost]
    queries: list[str]
    matches: Pairs = field(init=False)

    def __post_init__(self) -> None:
        self.matches = sorted(scan(self.posts, [parse(query) for query in self.queries]))

    @property
    def located(self) -> Located:
        return located(self.posts)


def located(posts: list[ScanPost]) -> Located:
    where = [[np.nan if at is None else at for at in (post.lon, post.lat)] for post in posts]
    return pa.array([post.text for post in posts], pa.large_string()), np.array(where, np.float64).reshape(-1, 2)


def real(posts: int, subscriptions: int, skip: int = 1000) -> tuple[list[ScanPost], list[str]]:
    tweets = pq.read_table(shared("geo_tweets.parquet"), columns=["text", "lat", "lon"]).slice(skip, posts)
    drawn = draw_subscriptions("Q3", subscriptions - len(MIXED), Tweets.of(tweets), seed=3)
    boxes = [",".join(map(str, box)) for box in drawn.column("region").to_pylist()]
    queries = [f"({text}) within:{box}" for text, box in zip(drawn.column("query").to_pylist(), boxes, strict=True)]
    rows = zip(*(tweets.column(name).to_pylist() for name in ("text", "lat", "lon")), strict=True)
    return [ScanPost(text or "", lat, lon) for text, lat, lon in rows], [*MIXED, *queries]


@pytest.fixture(scope="module")
def world() -> World:
    """Real tweets where they are; else posts that the project makes itself."""
    if (SHARED / "geo_tweets.parquet").is_file():
        return World(*real(150, 130))
    made = generate_posts(150, seed=13)
    rows = zip(*(made.column(name).to_pylist() for name in ("text", "lat", "lon")), strict=True)
    return World([ScanPost(*row) for row in rows], [*MIXED, *generate_queries(130, seed=13)])


@dataclass
class Stream:
    """An index that follows a store, and the queries that are live in it, by their ids."""

    world: World
    store: Store
    follower: Follower
    algorithm: str
    live: dict[int, int] = field(default_factory=dict)

    def change(self, rng: np.random.Generator, come: int, go: int) -> None:
        for number in rng.permutation(list(self.live))[:go].tolist():
            self.store.unsubscribe(number)
            del self.live[number]
        chosen = rng.integers(0, len(self.world.queries), come).tolist()
        ids = self.store.subscribe_many([(self.world.queries[query],) for query in chosen])
        self.live |= dict(zip(ids, chosen, strict=True))

    def switch(self, prepare) -> Index:
        """The version with a change of its plan; meanwhile subscriptions come and go."""
        assert self.follower.make(prepare)
        self.change(np.random.default_rng(len(self.live)), 3, 2)
        self.follower.refresh()
        self.follower.until_made()
        return self.follower.refresh()

    def learn(self, posts: slice) -> SpacePlan:
        index = self.follower.index
        learn = learn_space(self.algorithm, WORKERS, lambda: located(self.world.posts[posts]))
        return learn(index.vocabulary.terms(), subscribed_now(index))

    def wanted(self) -> Pairs:
        by_query: dict[int, list[int]] = {}
        for query, post in self.world.matches:
            by_query.setdefault(query, []).append(post)
        return sorted((number, post) for number, query in self.live.items() for post in by_query.get(query, []))

    def found(self) -> Pairs:
        return match_index(self.follower.index, self.world.posts, 40)


SOME = ["hybrid", "grid", "metric"]  # trees with and without shared words, cells, words alone


@pytest.fixture
def stream(request, tmp_path, world) -> Iterator[Stream]:
    with open_store(tmp_path) as store:
        record = PlanRecord(request.param, WORKERS, 7)
        made = Stream(world, store, Follower(store, tmp_path / "index", record), request.param)
        made.change(np.random.default_rng(1), 100, 0)
        made.follower.refresh()
        assert made.follower.relearn(learn_space(request.param, WORKERS, lambda: world.located))
        made.follower.until_made()
        assert made.follower.refresh().manifest.plan.space
        yield made


def plan_in_use(index: Index) -> SpacePlan:
    return space_plan(index.folder / index.manifest.plan.space)


def at_random(index: Index, rng: np.random.Generator) -> Prepared:
    """Some of a worker's cells to another one, some of them shared out by words that are said anywhere."""
    plan = plan_in_use(index)
    giver, taker = rng.permutation(WORKERS)[:2].tolist()
    own = [cell for cell, area in enumerate(plan.area_of_cell.tolist()) if giver in plan.areas[area].workers]
    intents: list[Intent] = []
    words = index.vocabulary.terms()
    for cell in rng.permutation(own)[: rng.integers(1, 400)].tolist():
        if plan.areas[plan.area_of_cell[cell]].is_shared or len(intents) > 3:
            intents.append(Move(cell, giver, taker, 1))
        else:
            intents.append(SplitByText(cell, int(rng.integers(0, 2)), giver, taker, 1))
    halves = {intent.cell: (words[::3], words[1::3]) for intent in intents}  # a third of the words is in neither
    return prepare_moved(index, applied(plan, intents, halves), {giver, taker})


@pytest.mark.parametrize("stream", SPACE_PARTITIONERS, indirect=True)
def test_cells_that_change_hands_change_no_match(stream):
    rng = np.random.default_rng(5)
    for _ in range(3):
        version = stream.follower.index.manifest.plan.version
        index = stream.switch(lambda index: at_random(index, rng))
        assert index.manifest.plan.version == version + 1
        assert stream.found() == stream.wanted()
        stream.change(rng, 12, 12)
        stream.follower.refresh()
        assert stream.found() == stream.wanted()


@pytest.mark.parametrize("stream", SOME, indirect=True)
def test_two_plans_side_by_side_find_each_match_once_until_the_old_ones_are_moved(stream):
    rng = np.random.default_rng(6)
    first = stream.follower.index
    index = stream.switch(lambda index: prepare_beside(index, stream.learn(slice(0, 100))))
    assert index.manifest.plan.before
    assert index.manifest.plan.version == first.manifest.plan.version + 1
    before = shares(index)
    for _ in range(3):
        assert stream.found() == stream.wanted()
        stream.change(rng, 20, 25)
        index = stream.follower.refresh()
    after = shares(index)
    assert after[0] < before[0]
    assert after[1] > before[1]
    index = stream.switch(prepare_merge)
    assert not index.manifest.plan.before
    assert shares(index)[0] == 0
    assert stream.found() == stream.wanted()


@pytest.mark.parametrize("stream", SOME, indirect=True)
def test_a_version_from_before_a_migration_still_finds_what_it_found(stream):
    index, found = stream.follower.index, stream.found()
    stream.switch(lambda index: at_random(index, np.random.default_rng(7)))
    assert match_index(stream.follower.version(index.version), stream.world.posts, 40) == found


@pytest.mark.parametrize("stream", SOME, indirect=True)
def test_merging_again_and_again_makes_no_index_larger(stream):
    sizes = []
    for _ in range(3):
        prepared = prepare_merge(stream.follower.index)
        stream.follower.index = prepared.publish(stream.follower.index.version + 1)
        sizes.append(sum(len(one.segment.second) for n in range(WORKERS) for one in stream.follower.index.shard(n)))
    assert sizes[0] == sizes[1] == sizes[2]


def noted(index: Index, posts: list[ScanPost]) -> Noted:
    (_, batch, where), *_ = received(index.receiver(), posts, len(posts))
    return Noted.of(open_router(index).route(batch, where))


def modelled(index: Index, posts: list[ScanPost]) -> list[float]:
    """The load of each worker by definition 3, cell by cell, told by counting everything."""
    plan, counted = plan_in_use(index), noted(index, posts)
    workers = cell_loads(held_by(index, plan), plan, counted.cells, counted.by_cell)
    return [sum(cell.load for cell in cells) for cells in workers]


@pytest.mark.parametrize("stream", ["hybrid", "kdt", "kdtree"], indirect=True)
def test_what_posts_find_in_a_cell_is_what_counting_one_by_one_finds(stream):
    index, posts = stream.follower.index, stream.world.posts
    plan = plan_in_use(index)
    recent = Recent.of(index, plan, stream.world.located)
    bounds, terms = recent.workload.received.bounds.tolist(), recent.workload.received.terms
    said = [{0, *terms[first:end].tolist()} for first, end in bounds]
    assert len(said) == sum(post.lon is not None for post in posts)
    for own in held_by(index, plan):
        found = np.zeros(len(plan.area_of_cell))
        words = np.zeros(len(plan.area_of_cell))
        for cell, (lon, lat), here in zip(recent.cells.tolist(), recent.workload.positions.tolist(), said, strict=True):
            words[cell] += len(here & set(own.leads.tolist()))
            is_owner = own.owners[own.row_of[plan.area_of_cell[cell]]]
            for (west, south, east, north), lead, mine in zip(own.boxes, own.leads, is_owner, strict=True):
                found[cell] += mine and lead in here and west <= lon <= east and south <= lat <= north
        counted = np.bincount(recent.cells, minlength=len(plan.area_of_cell))
        assert recent.seen_by(own).tolist() == [counted.tolist(), words.tolist(), found.tolist()]


@pytest.mark.parametrize("name", ["hybrid", "kdtree"])
def test_uneven_loads_become_more_even(tmp_path, world, name):
    """A plan learned from the first posts, and then all posts come from one worker's part of the world."""
    with open_store(tmp_path) as store:
        stream = Stream(world, store, Follower(store, tmp_path / "index", PlanRecord(name, WORKERS, 7)), name)
        stream.change(np.random.default_rng(1), 130, 0)
        stream.follower.refresh()
        stream.follower.relearn(learn_space(name, WORKERS, lambda: world.located))
        stream.follower.until_made()
        index = stream.follower.refresh()
        routed = open_router(index).route(*next(iter(received(index.receiver(), world.posts, len(world.posts))))[1:])
        busiest = max(routed.shares, key=lambda share: len(share.posts))
        crowd = [world.posts[number] for number in busiest.posts.tolist()]
        before = modelled(index, crowd)
        counted = noted(index, crowd)
        found = rebalanced(index, counted.cells, counted.by_cell, located(crowd), LocalSettings(sigma=1.2))
        assert found is not None
        assert (found.giver, found.size_bytes > 0) == (int(np.argmax(before)), True)
        moved = found.prepared.publish(index.version + 1)
        after = modelled(moved, crowd)
        assert max(after) < max(before)
        assert match_index(moved, world.posts, 40) == stream.wanted()


@pytest.mark.parametrize("stream", ["hybrid"], indirect=True)
def test_balanced_loads_are_left_alone(stream):
    index = stream.follower.index
    counted = noted(index, stream.world.posts)
    nothing = rebalanced(index, counted.cells, counted.by_cell, stream.world.located, LocalSettings(sigma=1e12))
    assert nothing is None


@pytest.mark.long
@pytest.mark.parametrize("name", SPACE_PARTITIONERS)
def test_a_hundred_thousand_subscriptions_on_real_tweets(tmp_path: Path, name):
    """The scan would take days: the replicated index, which the contract holds to the scan, says what is right."""
    from tidings.index.builder import create_index

    posts, queries = real(4_000, 100_000, skip=20_000)
    rng = np.random.default_rng(9)
    with open_store(tmp_path) as store:
        live = dict(zip(store.subscribe_many([(query,) for query in queries]), queries, strict=True))
        follower = Follower(store, tmp_path / "index", PlanRecord(name, WORKERS, 7))
        follower.relearn(learn_space(name, WORKERS, lambda: located(posts[:2_000])))
        for step in range(4):
            for number in rng.permutation(list(live))[:5_000].tolist():
                store.unsubscribe(number)
                del live[number]
            chosen = [queries[number] for number in rng.integers(0, len(queries), 5_000).tolist()]
            live |= dict(zip(store.subscribe_many([(query,) for query in chosen]), chosen, strict=True))
            follower.until_made()
            follower.refresh()
            if step:
                assert follower.make(lambda index: at_random(index, rng))
                follower.until_made()
                follower.refresh()
            table = pa.table({"id": pa.array(live), "query": pa.array(list(live.values()))})
            right, _ = create_index(tmp_path / f"whole-{step}", table)
            assert match_index(follower.index, posts, 1_000) == match_index(right, posts, 1_000)
