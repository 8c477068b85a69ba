"""Months with a fake clock: every match arrives in order, whatever receivers answer and whenever the sender dies."""

from __future__ import annotations

import tempfile
from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.store.batches import posts, read_ids, run_batch

from tidings.delivery.webhooks.message import build_message
from tidings.delivery.webhooks.policy import DeliveryOutcome, decide
from tidings.store import Store, open_store
from tidings.store.webhook_queue import AttemptResult, DueLimits
from tidings.store.webhooks import Attempt
from tidings.testing.clock import FakeClock

ALL = DueLimits(10, 10, 10, 10)
ACCEPTED, LOST = DeliveryOutcome(204), DeliveryOutcome(None, "the connection was closed")
OUTCOMES = st.sampled_from(
    [ACCEPTED, ACCEPTED, LOST, DeliveryOutcome(500), DeliveryOutcome(429, retry_after_s=7_200.0), DeliveryOutcome(410)]
)
STEPS = st.one_of(
    st.tuples(st.just("store_matches"), st.integers(1, 5)),
    st.tuples(st.just("send"), OUTCOMES, st.sampled_from(["", "", "", "before", "after"])),
    st.tuples(st.just("wait"), st.sampled_from([1.0, 10.0, 3_600.0, 90_000.0])),
    st.tuples(st.just("enable")),
)


class World:
    """A store, one webhook, and the messages that its receiver got."""

    def __init__(self, store: Store, clock: FakeClock) -> None:
        self.store, self.clock, self.numbers, self.batches = store, clock, count(), count()
        self.subscription = store.subscriptions.add("tea")
        self.hook = store.webhooks.add(self.subscription, "https://receiver.example/")
        self.got: list[tuple[str, bytes, list[int]]] = []

    def store_matches(self, count: int) -> None:
        numbers = [next(self.numbers) for _ in range(count)]
        run_batch(self.store, next(self.batches), posts(numbers), [(self.subscription, row) for row in range(count)])

    def send(self, outcome: DeliveryOutcome, dies: str) -> None:
        """Do what the sender does for due webhooks; it may die before sending or before recording the answer."""
        queue = self.store.webhook_queue
        queue.wake()
        for hook in queue.due(ALL):
            matches = queue.next_matches(hook, 3)
            if not matches:
                queue.mark_idle([hook])
                continue
            message = build_message(hook.name, hook.subscription, matches, is_fixed=hook.pending is not None)
            queue.fix_messages([(hook.id, message.until)] if hook.pending is None else [])
            if dies == "before":
                return
            self.got.append((message.id, message.body, [match.cursor for match in matches]))
            if dies == "after":
                return
            decision = decide(hook.failures, outcome, self.clock.now, 0.5)
            attempt = Attempt(message.id, message.matches, self.clock.now, outcome.status, outcome.text, 0.1)
            next_state = (decision.delivered, decision.failures, decision.due_at, decision.error)
            queue.record_results([AttemptResult(hook.id, message.until, attempt, *next_state)])

    def wait(self, seconds: float) -> None:
        self.clock.now += seconds

    def enable(self) -> None:
        self.store.webhooks.enable(self.hook.name)


@settings(deadline=None, max_examples=60)
@given(st.lists(STEPS, max_size=40))
def test_every_match_arrives_in_order_and_repeated_messages_are_identical(steps):
    clock = FakeClock()
    with tempfile.TemporaryDirectory() as folder, open_store(folder, clock) as store:
        world = World(store, clock)
        for name, *arguments in steps:
            getattr(world, name)(*arguments)
        world.enable()
        while store.webhook_queue.due(ALL) or store.webhook_queue.wake():
            world.send(ACCEPTED, "")
        first = {identity: (body, cursors) for identity, body, cursors in reversed(world.got)}
        assert all(first[identity] == (body, cursors) for identity, body, cursors in world.got)
        arrived = [cursor for _, cursors in sorted(first.values(), key=lambda item: item[1]) for cursor in cursors]
        order = [cursors[0] for _, _, cursors in world.got]
        assert arrived == [match.cursor for match in store.matches.since(world.subscription, limit=1_000)]
        assert order == sorted(order)
        assert store.webhooks.get(world.hook.name).matches == len(read_ids(store, world.subscription))


def test_a_webhook_survives_an_outage_of_three_days_but_not_of_four(tmp_path):
    for days, state in ((3.0, "active"), (4.5, "disabled")):
        clock = FakeClock()
        with open_store(tmp_path / state, clock) as store:
            world = World(store, clock)
            world.store_matches(1)
            back_at = clock.now + days * 86_400
            for _ in range(5 * 24 * 12):
                world.send(ACCEPTED if clock.now >= back_at else LOST, "")
                clock.now += 300
            assert store.webhooks.get(world.hook.name).state == state
            assert len(world.got) == 10
