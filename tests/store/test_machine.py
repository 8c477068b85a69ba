"""A stateful test: after any sequence of operations the store agrees with a model of dictionaries."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from tests.store.batches import matches, posts
from tests.store.conftest import new_schema

from tidings.errors import ChangeLogTruncated, UnknownSubscription
from tidings.store import Retention, open_store
from tidings.testing.clock import FakeClock

Batch = tuple[list[int], list[tuple[int, int]]]


class StoreMachine(RuleBasedStateMachine):
    """`matches` lists per subscription (post, time of the commit) in order."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.location = self.create_location()
        self.store = open_store(self.location, self.clock)
        self.live: set[int] = set()
        self.last_id = 0
        self.matches: dict[int, list[tuple[int, float]]] = {}
        self.begun: dict[int, int] = {}
        self.done: dict[int, Batch] = {}
        self.log: list[tuple[str, int]] = []
        self.cursors: dict[int, int] = {}

    def create_location(self) -> str:
        return tempfile.mkdtemp(prefix="tidings-store-")

    def teardown(self) -> None:
        self.store.close()
        if not self.location.startswith("postgres"):
            shutil.rmtree(self.location)

    @rule(count=st.integers(1, 3))
    def subscribe(self, count: int) -> None:
        ids = self.store.subscriptions.add_many([(f"q{n}",) for n in range(count)])
        assert list(ids) == list(range(self.last_id + 1, self.last_id + count + 1))
        self.last_id += count
        self.live |= set(ids)
        self.log += [("add", identity) for identity in ids]

    @rule(identity=st.integers(1, 8))
    def unsubscribe(self, identity: int) -> None:
        if identity not in self.live:
            with pytest.raises(UnknownSubscription):
                self.store.subscriptions.remove(identity)
            return
        self.store.subscriptions.remove(identity)
        self.live.remove(identity)
        self.matches.pop(identity, None)
        self.log.append(("remove", identity))

    @rule(version=st.integers(1, 99))
    def begin_and_crash(self, version: int) -> None:
        batch = len(self.done)
        assert self.store.batches.begin("s", batch, version, 0).index_version == self.begun.setdefault(batch, version)
        self.reopen()

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = open_store(self.location, self.clock)

    @rule(
        ids=st.lists(st.integers(0, 12), max_size=6),
        pairs=st.lists(st.tuples(st.integers(1, 8), st.integers(0, 5)), max_size=12),
        version=st.integers(1, 99),
    )
    def commit(self, ids: list[int], pairs: list[tuple[int, int]], version: int) -> None:
        batch = len(self.done)
        pin = self.store.batches.begin("s", batch, version, 0)
        assert pin.index_version == self.begun.setdefault(batch, version)
        in_range = [(identity, row) for identity, row in pairs if row < len(ids)]
        before = {identity: self.cursors.get(identity, 0) for identity in self.live}
        stored = self.store.batches.commit("s", batch, posts(ids), matches(in_range))
        new = {
            (identity, ids[row])
            for identity, row in in_range
            if identity in self.live and ids[row] not in {post for post, _ in self.matches.get(identity, [])}
        }
        assert stored.matches == len(new)
        self.done[batch] = (ids, in_range)
        for identity, post in sorted(new, key=lambda pair: str(pair[1])):
            self.matches.setdefault(identity, []).append((post, self.clock.now))
        for identity in self.live:
            fresh = self.store.matches.since(identity, cursor=before[identity])
            assert {(identity, match.post_id) for match in fresh} == {pair for pair in new if pair[0] == identity}
            assert all(match.index_version == pin.index_version for match in fresh)

    @rule(data=st.data())
    def replay(self, data: st.DataObject) -> None:
        if self.done:
            batch = data.draw(st.sampled_from(sorted(self.done)))
            assert self.store.batches.begin("s", batch, 100, 0) == (self.begun[batch], 0, True, True, "")
            ids, pairs = self.done[batch]
            assert self.store.batches.commit("s", batch, posts(ids), matches(pairs)).matches == 0

    @rule(seconds=st.sampled_from([70, 500]))
    def wait(self, seconds: float) -> None:
        self.clock.now += seconds

    @rule(most=st.integers(0, 4), age=st.sampled_from([100, 400, 10**6]))
    def retain(self, most: int, age: float) -> None:
        self.store.apply_retention(Retention(max_matches_per_subscription=most, max_age_s=age))
        limit = self.clock.now - age
        for identity, matches_ in self.matches.items():
            young = [match for match in matches_ if match[1] > limit]
            self.matches[identity] = young[len(young) - min(most, len(young)) :]

    @invariant()
    def matches_agree_with_the_model(self) -> None:
        assert [s.id for s in self.store.subscriptions.all()] == sorted(self.live)
        for identity in self.live:
            stored = self.store.matches.since(identity)
            assert [match.post_id for match in stored] == [post for post, _ in self.matches.get(identity, [])]
            if stored:
                assert stored[-1].cursor >= self.cursors.get(identity, 0)
                self.cursors[identity] = stored[-1].cursor

    @invariant()
    def change_log_agrees_with_the_model(self) -> None:
        assert self.store.subscriptions.position() == len(self.log)
        with suppress(ChangeLogTruncated):
            assert [(change.kind, change.subscription) for change in self.store.subscriptions.change_log(0)] == self.log

    @invariant()
    def counts_agree_with_the_tables(self) -> None:
        sizes = self.store.sizes()
        posts_kept = self.store.database.fetch("SELECT count(*) FROM post")[0][0]
        refs = self.store.database.fetch("SELECT coalesce(sum(refs), 0) FROM post")[0][0]
        assert sizes.posts == posts_kept
        assert sizes.matches == refs == self.store.database.fetch("SELECT count(*) FROM match")[0][0]
        assert sizes.matches >= sum(map(len, self.matches.values()))  # retention deletes those of removed subscriptions


def run_machine(machine: type[StoreMachine], examples: int, steps: int) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_sqlite_agrees_with_the_model():
    run_machine(StoreMachine, 25, 25)


@pytest.mark.long
def test_sqlite_agrees_with_the_model_over_many_runs():
    run_machine(StoreMachine, 100, 40)


def test_postgres_agrees_with_the_model(server):
    class OnServer(StoreMachine):
        def create_location(self) -> str:
            return new_schema(server)

    run_machine(OnServer, 6, 20)
