"""The relearner of a stream, on a clock of the test's own and without Spark: it decides, the follower learns."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tidings.balance.refresh_policy import ENOUGH, Rules
from tidings.balance.spec import WantedPlan
from tidings.routing.stats import Noted
from tidings.spark.execution_mode import plan_record
from tidings.store import open_store
from tidings.stream.index_updater import Follower
from tidings.stream.plan_refresh import Relearner

WORDS = [f"word{number}" for number in range(8)]
HOUR_S = 3_600.0


class Stream:
    """Borders between batches, one after the other."""

    def __init__(self, folder, rules: Rules, partitioner: str = "salb+") -> None:
        self.store = open_store(folder)
        if not list(self.store.subscriptions()):
            self.store.subscribe_many([(word,) for word in WORDS])
        self.wanted = WantedPlan.checked(partitioner, 4, "rarest")
        self.follower = Follower(self.store, folder / "index", plan_record(self.wanted))
        self.now, self.said = 1_000_000.0, []
        kept = folder / "plan.json"
        self.relearner = Relearner(
            self.follower, self.store, self.wanted, rules, kept, self.said.append, lambda: self.now
        )

    def batch(self, posts: int = ENOUGH, loads=(5_000, 5_000, 5_000, 5_000)) -> int:
        """The version of the plan that the batch uses; what is learned is learned at once."""
        self.relearner.at_border()
        self.follower.until_made()
        index = self.follower.refresh()
        self.relearner.at_version(index)
        texts = pa.array([" ".join(WORDS)] * posts, pa.large_string())
        self.relearner.measured(index, Noted(spread=np.array([0, posts]), texts=texts), loads)
        return index.manifest.plan.version


@pytest.fixture
def started(tmp_path):
    streams = []

    def start(*arguments) -> Stream:
        streams.append(Stream(tmp_path, *arguments))
        return streams[-1]

    yield start
    for stream in streams:
        stream.store.close()


def test_a_first_plan_comes_with_the_first_posts(started):
    stream = started(Rules())
    assert [stream.batch() for _ in range(3)] == [1, 2, 2]
    assert "no plan was learned yet" in stream.said[0]


def test_the_schedule_holds_over_restarts(started):
    stream = started(Rules(HOUR_S))
    assert [stream.batch(), stream.batch()] == [1, 2]
    stream.now += HOUR_S - 1
    assert stream.batch() == 2
    again = started(Rules(HOUR_S))
    assert [again.batch(), again.batch()] == [2, 2], "its time has not come"
    again.now += HOUR_S
    assert again.batch() == 3
    assert any("its time had come" in said for said in again.said)


def test_a_plan_that_has_become_worse_is_learned_anew_and_is_then_judged_by_its_own_first_value(started):
    stream = started(Rules(factor=1.5))
    assert [stream.batch(), stream.batch(), stream.batch()] == [1, 2, 2]
    assert stream.relearner.told()["plan_value_at_first"] == 2.0
    uneven = (9_000, 1_000, 5_000, 5_000)
    assert stream.batch(loads=uneven) == 2
    assert stream.batch(loads=uneven) == 3
    assert stream.relearner.told()["plan_value_at_first"] == pytest.approx(3.6)
    assert [stream.batch(loads=uneven) for _ in range(3)] == [3, 3, 3]


def test_what_cannot_be_learned_is_told_and_tried_again_later(started, monkeypatch):
    stream = started(Rules())
    stream.batch()
    monkeypatch.setattr(WantedPlan, "learn_anew", lambda self, sample: lambda terms, conjunctions: 1 / 0)
    assert [stream.batch(), stream.batch()] == [1, 1]
    assert sum("the one in use stays" in said for said in stream.said) == 1
    monkeypatch.undo()
    stream.now += 61
    assert stream.batch() == 2


def test_hashed_words_have_nothing_to_learn_and_who_asks_is_told(started):
    stream = started(Rules(HOUR_S), "hash")
    stream.store.ask_to_relearn()
    stream.now += 2 * HOUR_S
    assert [stream.batch(), stream.batch()] == [1, 1]
    assert len(stream.said) == 1
    assert stream.relearner.texts == 0
