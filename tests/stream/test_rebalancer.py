"""The adjuster of a stream, on a clock of the test's own and without Spark: it decides, the follower makes versions."""

from __future__ import annotations

import numpy as np
import pytest
from tests.balance.test_migration import located
from tests.contract.matchers import match_index, received
from tests.contract.test_space_partitioners import many

from tidings.balance.rebalance.global_policy import OverallSettings
from tidings.balance.rebalance.options import AdjustRules
from tidings.balance.recent_sample import RecentPosts
from tidings.balance.refresh_policy import ENOUGH
from tidings.balance.spec import WantedPlan
from tidings.matching.brute_force import scan
from tidings.query.parse import parse
from tidings.routing.spatial_router import open_router
from tidings.routing.stats import Noted
from tidings.spark.execution_mode import plan_record
from tidings.store import open_store
from tidings.stream.index_updater import Follower
from tidings.stream.rebalancer import Adjuster

HOUR_S = 3_600.0
WORKERS = 3


class Stream:
    """Borders between batches, one after the other."""

    def __init__(self, folder, rules: AdjustRules, partitioner: str = "kdtree") -> None:
        self.queries, self.posts = many(count=300)
        self.store = open_store(folder)
        self.live = dict(zip(self.store.subscribe_many([(q,) for q in self.queries]), self.queries, strict=True))
        wanted = WantedPlan.checked(partitioner, WORKERS, "rarest")
        self.follower = Follower(self.store, folder / "index", plan_record(wanted))
        self.recent = RecentPosts()
        self.recent.add(located(self.posts))
        self.follower.relearn(wanted.learn_anew(self.recent.posts))
        self.follower.until_made()
        self.follower.refresh()
        self.now, self.said = 1_000_000.0, []
        kept = folder / "adjust.json"
        self.adjuster = Adjuster(self.follower, wanted, self.recent, rules, kept, self.said.append, lambda: self.now)

    def batch(self, posts=None, times: int = 100) -> int:
        """The version of the plan that the batch uses; its posts count many times, as if there were more of them."""
        self.adjuster.at_border()
        self.follower.until_made()
        index = self.follower.refresh()
        self.adjuster.at_version(index)
        (_, batch, where), *_ = received(index.receiver(), posts or self.posts, len(posts or self.posts))
        noted = Noted.of(open_router(index).route(batch, where))
        more = Noted(noted.spread * times, cells=noted.cells, by_cell=noted.by_cell * times)
        self.adjuster.measured(index, more)
        return index.manifest.plan.version

    def is_right(self) -> bool:
        found = match_index(self.follower.index, self.posts, 50)
        numbers = list(self.live)
        wanted = scan(self.posts, [parse(query) for query in self.live.values()])
        return found == sorted((numbers[query], post) for query, post in wanted)


@pytest.fixture
def started(tmp_path):
    streams = []

    def start(*arguments) -> Stream:
        streams.append(Stream(tmp_path, *arguments))
        return streams[-1]

    yield start
    for stream in streams:
        stream.store.close()


def crowd(stream: Stream) -> list:
    """Posts of one town only."""
    return [post for post in stream.posts if post.lat > 35]


def test_cells_move_once_enough_uneven_posts_were_counted(started):
    stream = started(AdjustRules(factor=1.5, every_s=None))
    few = crowd(stream)
    assert len(few) * 100 < 2 * ENOUGH
    assert [stream.batch(few, 10), stream.batch(few)] == [2, 2]
    stream.batch(few, 200)
    assert stream.batch(few) == 3
    told = stream.adjuster.told()
    assert told["adjustments"] == 1
    assert told["adjusted_bytes"] > 0
    assert "of its cells" in told["last_adjustment"]["reason"]
    assert any("of its cells" in said for said in stream.said)
    assert stream.is_right()


def test_between_two_looks_at_the_loads_there_is_a_pause(started):
    stream = started(AdjustRules(factor=1.01, every_s=None))
    few = crowd(stream)
    versions = [stream.batch(few, 200) for _ in range(4)]
    assert versions == [2, 3, 3, 3]
    stream.now += 60
    assert stream.batch(few, 200) == 4


def test_nothing_moves_where_that_is_turned_off_or_the_load_is_even(started):
    stream = started(AdjustRules(factor=None, every_s=None))
    assert [stream.batch(crowd(stream), 200) for _ in range(3)] == [2, 2, 2]
    assert stream.adjuster.told()["adjustments"] == 0


def test_a_better_plan_takes_over_and_the_old_one_goes_when_few_are_left(started):
    rules = AdjustRules(factor=None, every_s=HOUR_S, overall=OverallSettings(least_gain=-10.0, few=0.3))
    stream = started(rules)
    assert [stream.batch(), stream.batch()] == [2, 2], "its time has not come"
    stream.now += HOUR_S
    assert stream.batch() == 3
    assert stream.adjuster.told()["old_plan_share"] == 1.0
    assert "new subscriptions follow it" in stream.adjuster.told()["last_adjustment"]["reason"]
    assert stream.is_right()
    for number in list(stream.live)[:270]:
        stream.store.unsubscribe(number)
        del stream.live[number]
    new = stream.queries[:200]
    stream.live |= dict(zip(stream.store.subscribe_many([(query,) for query in new]), new, strict=True))
    assert stream.batch() == 3
    assert 0 < stream.adjuster.told()["old_plan_share"] < 0.3
    assert stream.is_right()
    assert stream.batch() == 4
    assert stream.adjuster.told()["old_plan_share"] is None
    assert "were moved" in stream.adjuster.told()["last_adjustment"]["reason"]
    assert stream.adjuster.told()["adjusted_bytes"] > 0
    assert stream.is_right()


def test_a_plan_that_does_not_pay_is_passed_over_and_the_time_of_the_look_is_kept(started, tmp_path):
    stream = started(AdjustRules(factor=None, every_s=HOUR_S, overall=OverallSettings(least_gain=0.99)))
    stream.now += HOUR_S
    assert [stream.batch(), stream.batch()] == [2, 2]
    kept = (tmp_path / "adjust.json").read_text()
    assert str(stream.now) in kept
    assert np.isclose(stream.adjuster._remembered(), stream.now)
