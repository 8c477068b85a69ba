"""Webhooks in the store: whose they are, when they are due, and that no match is passed over."""

from __future__ import annotations

import pytest
from tests.store.batches import run

from tidings.errors import InputError, QuotaExceeded, StoreBusy, UnknownSubscription, UnknownWebhook
from tidings.store import Retention, open_store
from tidings.store.webhook_queue import Share, Totals, Tried
from tidings.store.webhooks import KEPT_ATTEMPTS, MAX_A_SUBSCRIPTION, OLD_SECRET_S, Attempt

URL = "https://receiver.example/hook"
ALL = Share(100, 100, 100, 100)


def tried(hook, until: int, *, delivered: bool = True, due_at: float | None = None, matches: int = 1) -> Tried:
    attempt = Attempt(f"msg_{until}", matches, 1.0, 204 if delivered else 500, "answered", 0.1)
    return Tried(hook.id, until, attempt, delivered, 0 if delivered else 1, due_at, "" if delivered else "answered 500")


def due(store) -> list[int]:
    store.webhook_queue.wake()
    return [hook.id for hook in store.webhook_queue.due(ALL)]


def rested(store, subscription: int, **more):
    """A hook that has looked, and found nothing to send."""
    hook = store.webhooks.add(subscription, URL, **more)
    store.webhook_queue.rest([hook])
    return hook


def test_nobody_reaches_the_webhook_of_another_owner(store):
    mine, theirs = store.subscribe("tea", "ann"), store.subscribe("tea", "bob")
    hook = store.webhooks.add(mine, URL, "ann")
    with pytest.raises(UnknownSubscription):
        store.webhooks.add(theirs, URL, "ann")
    with pytest.raises(UnknownSubscription):
        store.webhooks.of(mine, "bob")
    for reach in (store.webhooks.get, store.webhooks.remove, store.webhooks.rotate, store.webhooks.enable):
        with pytest.raises(UnknownWebhook, match=f"Webhook {hook.name} does not exist"):
            reach(hook.name, "bob")
    with pytest.raises(UnknownWebhook):
        store.webhooks.log(hook.name, "bob")
    assert store.webhooks.of(mine, "ann") == [store.webhooks.get(hook.name, "ann")] == [hook]


def test_a_webhook_goes_with_its_subscription_and_its_number_is_never_given_again(store):
    subscription = store.subscribe("tea", "ann")
    hook = store.webhooks.add(subscription, URL, "ann")
    store.unsubscribe(subscription)
    with pytest.raises(UnknownWebhook):
        store.webhooks.get(hook.name, "ann")
    assert due(store) == []
    assert store.webhook_queue.tidy() == 1
    assert store.webhooks.add(store.subscribe("tea"), URL).id == hook.id + 1


def test_an_owner_sees_its_own_webhooks_page_by_page(store):
    mine = [store.webhooks.add(store.subscribe("tea", owner), URL) for owner in ("ann", "bob", "ann", "ann")]
    mine.pop(1)
    assert store.webhooks.page("ann", limit=2) == mine[:2]
    assert store.webhooks.page("ann", after=mine[1].name) == mine[2:]
    store.unsubscribe(mine[2].subscription)
    assert store.webhooks.page("ann") == mine[:2]


@pytest.mark.parametrize(
    "url", ["ftp://e.org/", "https://ann:pw@e.org/", "https://", "javascript:alert(1)", "http://e org"]
)
def test_an_address_that_cannot_be_sent_to_is_refused(store, url):
    with pytest.raises(InputError):
        store.webhooks.add(store.subscribe("tea"), url)


def test_a_subscription_has_so_many_webhooks_at_most(store):
    subscription = store.subscribe("tea")
    for _ in range(MAX_A_SUBSCRIPTION):
        store.webhooks.add(subscription, URL)
    with pytest.raises(QuotaExceeded, match="at most 10 webhooks"):
        store.webhooks.add(subscription, URL)


def test_a_new_webhook_is_told_what_comes_or_what_came_after_a_cursor(store):
    subscription = store.subscribe("tea")
    run(store, 0, [1, 2], [(subscription, 0), (subscription, 1)])
    new, old = store.webhooks.add(subscription, URL), store.webhooks.add(subscription, URL, after=1)
    assert store.webhook_queue.waiting(new, 10) == []
    assert [match.post_id for match in store.webhook_queue.waiting(old, 10)] == [2]


def test_a_match_makes_the_hooks_of_its_subscription_due_and_no_other(store):
    tea, coffee = store.subscribe("tea"), store.subscribe("coffee")
    hook, other = rested(store, tea), rested(store, coffee)
    assert due(store) == []
    run(store, 0, [1], [(tea, 0)])
    assert due(store) == [hook.id]
    run(store, 1, [2], [(coffee, 0)])
    assert due(store) == [hook.id, other.id]


def test_a_match_that_comes_while_a_hook_goes_to_rest_wakes_it(store):
    """Whichever of the two is stored first."""
    tea = store.subscribe("tea")
    hook = store.webhooks.add(tea, URL)
    run(store, 0, [1], [(tea, 0)])
    assert store.webhook_queue.wake() == 0  # it is due already
    store.webhook_queue.rest([hook])
    assert due(store) == [hook.id]


def test_what_a_message_holds_is_fixed_until_it_is_delivered(store):
    tea = store.subscribe("tea")
    hook = store.webhooks.add(tea, URL)
    run(store, 0, [1, 2], [(tea, 0), (tea, 1)])
    queue = store.webhook_queue
    until = queue.waiting(hook, 10)[-1].cursor
    queue.fix([(hook.id, until)])
    run(store, 1, [3], [(tea, 0)])
    queue.fix([(hook.id, until + 1)])  # too late
    assert [match.post_id for match in queue.waiting(store.webhooks.get(hook.name), 10)] == [1, 2]
    queue.tried([tried(hook, until, matches=2)])
    after = store.webhooks.get(hook.name)
    assert (after.cursor, after.pending, after.messages, after.matches) == (until, None, 1, 2)
    assert due(store) == [hook.id]  # for the third
    assert [match.post_id for match in queue.waiting(after, 10)] == [3]


def test_a_hook_that_failed_is_due_when_it_was_decided_and_one_given_up_never(store, clock):
    tea = store.subscribe("tea")
    hook = store.webhooks.add(tea, URL)
    run(store, 0, [1], [(tea, 0)])
    store.webhook_queue.fix([(hook.id, 1)])
    store.webhook_queue.tried([tried(hook, 1, delivered=False, due_at=clock.now + 5)])
    run(store, 1, [2], [(tea, 0)])
    assert due(store) == []
    assert store.webhooks.get(hook.name).state == "retrying"
    clock.now += 5
    assert due(store) == [hook.id]
    store.webhook_queue.tried([tried(hook, 1, delivered=False)])
    assert store.webhooks.get(hook.name).state == "disabled"
    assert (due(store), store.webhook_queue.totals()) == ([], Totals(0, 0, 1, 0, 0))
    assert [one.error for one in store.webhook_queue.troubled(5)] == ["answered 500"]
    enabled = store.webhooks.enable(hook.name)
    assert (enabled.state, enabled.failures, enabled.pending, due(store)) == ("active", 0, 1, [hook.id])


def test_one_host_and_one_owner_get_no_more_than_their_share_and_trouble_comes_last(store, clock):
    hooks = [
        store.webhooks.add(store.subscribe("tea", owner), f"https://{host}/")
        for owner, host in (
            ("ann", "a"),
            ("ann", "a"),
            ("ann", "a"),
            ("ann", "b"),
            ("ann", "c"),
            ("bob", "a"),
            ("bob", "d"),
        )
    ]
    store.webhook_queue.fix([(hooks[0].id, 1)])
    store.webhook_queue.tried([tried(hooks[0], 1, delivered=False, due_at=clock.now)])
    for share, expected in (
        (Share(9, 9, 9, 9), [2, 3, 4, 5, 6, 7, 1]),
        (Share(2, 9, 9, 9), [2, 4, 5, 6, 7, 1]),  # the third of ann's at a
        (Share(9, 2, 9, 9), [4, 5, 6, 7, 1]),  # of ann's and bob's at a one each, in turn
        (Share(9, 9, 3, 9), [2, 3, 6, 7, 1]),
        (Share(9, 9, 9, 2), [2, 3]),
    ):
        assert [hook.id for hook in store.webhook_queue.due(share)] == expected
    assert hooks[5].host == "a"


def test_matches_forgotten_before_they_were_delivered_do_not_stop_a_hook(store):
    tea = store.subscribe("tea")
    hook = store.webhooks.add(tea, URL)
    run(store, 0, [1, 2, 3], [(tea, 0), (tea, 1), (tea, 2)])
    store.webhook_queue.fix([(hook.id, 2)])
    store.retain(Retention(max_matches_per_subscription=1))
    stuck = store.webhooks.get(hook.name)
    assert store.webhook_queue.waiting(stuck, 10) == []
    store.webhook_queue.rest([stuck])
    assert [match.post_id for match in store.webhook_queue.waiting(store.webhooks.get(hook.name), 10)] == [3]
    assert due(store) == [hook.id]


def test_for_a_day_after_a_rotation_both_secrets_sign(store, clock):
    hook = store.webhooks.add(store.subscribe("tea"), URL)
    turned = store.webhooks.rotate(hook.name)
    assert turned.secrets(clock.now) == [turned.secret, hook.secret]
    assert turned.secrets(clock.now + OLD_SECRET_S) == [turned.secret]
    assert turned.secret.startswith("whsec_")
    assert turned.secret != hook.secret


def test_the_log_holds_the_last_attempts(store):
    hook = store.webhooks.add(store.subscribe("tea"), URL)
    for number in range(KEPT_ATTEMPTS + 5):
        store.webhooks.note(hook, Attempt(f"m{number}", 0, float(number), None, "no answer", 0.5))
    log = store.webhooks.log(hook.name)
    assert [one.message for one in log] == [f"m{number}" for number in reversed(range(5, KEPT_ATTEMPTS + 5))]
    store.webhooks.remove(hook.name)
    store.webhooks.note(hook, log[0])  # an attempt that ended after that
    store.webhook_queue.tried([tried(hook, 1)])
    with pytest.raises(UnknownWebhook):
        store.webhooks.log(hook.name)


def test_one_process_at_a_time_sends_the_webhooks_of_a_store(store, where):
    with open_store(where) as other:
        held = store.hold_sender()
        with held, pytest.raises(StoreBusy, match="sender"), other.hold_sender():
            pass
        with other.hold_sender():
            pass
