"""Months under a fake clock: whatever receivers answer and whenever the sender dies, every match arrives, in order."""

from __future__ import annotations

import tempfile
from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.store.batches import ids, posts, run

from tidings.delivery.webhooks.message import build_message
from tidings.delivery.webhooks.policy import DeliveryOutcome, decide
from tidings.store import Store, open_store
from tidings.store.webhook_queue import AttemptResult, DueLimits
from tidings.store.webhooks import Attempt
from tidings.testing.clock import FakeClock

EVERYTHING = DueLimits(10, 10, 10, 10)
TAKEN, LOST = DeliveryOutcome(204), DeliveryOutcome(None, "the connection broke before an answer came")
OUTCOMES = st.sampled_from([TAKEN, TAKEN, LOST, DeliveryOutcome(500), DeliveryOutcome(429, retry_after_s=7_200.0), DeliveryOutcome(410)])
STEPS = st.one_of(
    st.tuples(st.just("match"), st.integers(1, 5)),
    st.tuples(st.just("turn"), OUTCOMES, st.sampled_from(["", "", "", "before", "after"])),
    st.tuples(st.just("wait"), st.sampled_from([1.0, 10.0, 3_600.0, 90_000.0])),
    st.tuples(st.just("enable")),
)


class World:
    """A store, one hook, and a receiver that remembers what reached it."""

    def __init__(self, store: Store, clock: FakeClock) -> None:
        self.store, self.clock, self.numbers, self.batches = store, clock, count(), count()
        self.subscription = store.subscriptions.add("tea")
        self.hook = store.webhooks.add(self.subscription, "https://receiver.example/")
        self.got: list[tuple[str, bytes, list[int]]] = []

    def match(self, many: int) -> None:
        numbers = [next(self.numbers) for _ in range(many)]
        run(self.store, next(self.batches), posts(numbers), [(self.subscription, row) for row in range(many)])

    def turn(self, outcome: DeliveryOutcome, dies: str) -> None:
        """What the sender does for a hook that is due; it may die before it sends, or before it notes the answer."""
        queue = self.store.webhook_queue
        queue.wake()
        for hook in queue.due(EVERYTHING):
            found = queue.next_matches(hook, 3)
            if not found:
                queue.mark_idle([hook])
                continue
            made = build_message(hook.name, hook.subscription, found, is_fixed=hook.pending is not None)
            queue.fix_messages([(hook.id, made.until)] if hook.pending is None else [])
            if dies == "before":
                return
            self.got.append((made.id, made.body, [match.cursor for match in found]))
            if dies == "after":
                return
            after = decide(hook.failures, outcome, self.clock.now, 0.5)
            attempt = Attempt(made.id, made.matches, self.clock.now, outcome.status, outcome.sentence, 0.1)
            follows = (after.delivered, after.failures, after.due_at, after.error)
            queue.record_results([AttemptResult(hook.id, made.until, attempt, *follows)])

    def wait(self, seconds: float) -> None:
        self.clock.now += seconds

    def enable(self) -> None:
        self.store.webhooks.enable(self.hook.name)


@settings(deadline=None, max_examples=60)
@given(st.lists(STEPS, max_size=40))
def test_whatever_happens_every_match_arrives_in_order_and_again_only_as_it_was(steps):
    clock = FakeClock()
    with tempfile.TemporaryDirectory() as folder, open_store(folder, clock) as store:
        world = World(store, clock)
        for name, *given_ in steps:
            getattr(world, name)(*given_)
        world.enable()
        while store.webhook_queue.due(EVERYTHING) or store.webhook_queue.wake():
            world.turn(TAKEN, "")
        first = {identity: (body, cursors) for identity, body, cursors in reversed(world.got)}
        assert all(first[identity] == (body, cursors) for identity, body, cursors in world.got)
        arrived = [cursor for _, cursors in sorted(first.values(), key=lambda one: one[1]) for cursor in cursors]
        order = [cursors[0] for _, _, cursors in world.got]
        assert arrived == [match.cursor for match in store.matches.since(world.subscription, limit=1_000)]
        assert order == sorted(order)
        assert store.webhooks.get(world.hook.name).matches == len(ids(store, world.subscription))


def test_a_receiver_that_is_away_for_three_days_misses_nothing_and_one_away_for_four_is_switched_off(tmp_path):
    for days, state in ((3.0, "active"), (4.5, "disabled")):
        clock = FakeClock()
        with open_store(tmp_path / state, clock) as store:
            world = World(store, clock)
            world.match(1)
            back_at = clock.now + days * 86_400
            for _ in range(5 * 24 * 12):
                world.turn(TAKEN if clock.now >= back_at else LOST, "")
                clock.now += 300
            assert store.webhooks.get(world.hook.name).state == state
            assert len(world.got) == 10
