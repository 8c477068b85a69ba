"""Webhooks in the store: ownership, when they are due, and that no match is missed."""

from __future__ import annotations

import pytest
from tests.store.batches import read_ids, run_batch

from tidings.errors import InputError, QuotaExceeded, StoreBusy, UnknownSubscription, UnknownWebhook
from tidings.store import Retention, open_store
from tidings.store.feeds import VisitRecord
from tidings.store.webhook_queue import AttemptResult, DueLimits, WebhookTotals
from tidings.store.webhooks import LOGGED_ATTEMPTS, MAX_WEBHOOKS_PER_SUBSCRIPTION, OLD_SECRET_S, Attempt

URL = "https://receiver.example/hook"
FEED = "https://feed.example/rss"
ALL = DueLimits(100, 100, 100, 100)


def result_of(
    hook, until: int, *, delivered: bool = True, due_at: float | None = None, matches: int = 1
) -> AttemptResult:
    attempt = Attempt(f"msg_{until}", matches, 1.0, 204 if delivered else 500, "answered", 0.1)
    return AttemptResult(
        hook.id, until, attempt, delivered, 0 if delivered else 1, due_at, "" if delivered else "answered 500"
    )


def due_ids(store) -> list[int]:
    store.webhook_queue.wake()
    return [hook.id for hook in store.webhook_queue.due(ALL)]


def add_idle(store, subscription: int, **more):
    """Add a webhook that waits for a match."""
    hook = store.webhooks.add(subscription, URL, **more)
    store.webhook_queue.mark_idle([hook])
    return hook


def test_webhooks_of_other_owners_look_unknown(store):
    mine, theirs = store.subscriptions.add("tea", "ann"), store.subscriptions.add("tea", "bob")
    hook = store.webhooks.add(mine, URL, "ann")
    with pytest.raises(UnknownSubscription):
        store.webhooks.add(theirs, URL, "ann")
    with pytest.raises(UnknownSubscription):
        store.webhooks.of_subscription(mine, "bob")
    for method in (store.webhooks.get, store.webhooks.remove, store.webhooks.rotate_secret, store.webhooks.enable):
        with pytest.raises(UnknownWebhook, match=f"Webhook {hook.name} does not exist"):
            method(hook.name, "bob")
    with pytest.raises(UnknownWebhook):
        store.webhooks.attempts(hook.name, "bob")
    assert store.webhooks.of_subscription(mine, "ann") == [store.webhooks.get(hook.name, "ann")] == [hook]


def test_a_webhook_is_deleted_with_its_subscription_and_ids_are_not_reused(store):
    subscription = store.subscriptions.add("tea", "ann")
    hook = store.webhooks.add(subscription, URL, "ann")
    store.subscriptions.remove(subscription)
    with pytest.raises(UnknownWebhook):
        store.webhooks.get(hook.name, "ann")
    assert due_ids(store) == []
    assert store.webhook_queue.delete_orphans() == 1
    assert store.webhooks.add(store.subscriptions.add("tea"), URL).id == hook.id + 1


def test_webhooks_are_listed_per_owner_in_pages(store):
    mine = [store.webhooks.add(store.subscriptions.add("tea", owner), URL) for owner in ("ann", "bob", "ann", "ann")]
    mine.pop(1)
    assert store.webhooks.page("ann", limit=2) == mine[:2]
    assert store.webhooks.page("ann", after=mine[1].name) == mine[2:]
    store.subscriptions.remove(mine[2].subscription)
    assert store.webhooks.page("ann") == mine[:2]


@pytest.mark.parametrize(
    "url", ["ftp://e.org/", "https://ann:pw@e.org/", "https://", "javascript:alert(1)", "http://e org"]
)
def test_an_invalid_receiver_url_is_rejected(store, url):
    with pytest.raises(InputError):
        store.webhooks.add(store.subscriptions.add("tea"), url)


def test_the_number_of_webhooks_per_subscription_is_limited(store):
    subscription = store.subscriptions.add("tea")
    for _ in range(MAX_WEBHOOKS_PER_SUBSCRIPTION):
        store.webhooks.add(subscription, URL)
    with pytest.raises(QuotaExceeded, match=r"reached \(10\)"):
        store.webhooks.add(subscription, URL)


def test_a_new_webhook_starts_with_future_matches_or_after_a_cursor(store):
    subscription = store.subscriptions.add("tea")
    run_batch(store, 0, [1, 2], [(subscription, 0), (subscription, 1)])
    new, old = store.webhooks.add(subscription, URL), store.webhooks.add(subscription, URL, after=1)
    assert store.webhook_queue.next_matches(new, 10) == []
    assert [match.post_id for match in store.webhook_queue.next_matches(old, 10)] == [2]


def test_a_match_makes_only_webhooks_of_its_subscription_due(store):
    tea, coffee = store.subscriptions.add("tea"), store.subscriptions.add("coffee")
    hook, other = add_idle(store, tea), add_idle(store, coffee)
    assert due_ids(store) == []
    run_batch(store, 0, [1], [(tea, 0)])
    assert due_ids(store) == [hook.id]
    run_batch(store, 1, [2], [(coffee, 0)])
    assert due_ids(store) == [hook.id, other.id]


def test_a_match_stored_while_a_webhook_becomes_idle_wakes_it(store):
    """The order of the two writes does not matter."""
    tea = store.subscriptions.add("tea")
    hook = store.webhooks.add(tea, URL)
    run_batch(store, 0, [1], [(tea, 0)])
    assert store.webhook_queue.wake() == 0  # it is due already
    store.webhook_queue.mark_idle([hook])
    assert due_ids(store) == [hook.id]


def test_the_content_of_a_message_is_fixed_until_it_is_delivered(store):
    tea = store.subscriptions.add("tea")
    hook = store.webhooks.add(tea, URL)
    run_batch(store, 0, [1, 2], [(tea, 0), (tea, 1)])
    queue = store.webhook_queue
    until = queue.next_matches(hook, 10)[-1].cursor
    queue.fix_messages([(hook.id, until)])
    run_batch(store, 1, [3], [(tea, 0)])
    queue.fix_messages([(hook.id, until + 1)])  # too late
    assert [match.post_id for match in queue.next_matches(store.webhooks.get(hook.name), 10)] == [1, 2]
    queue.record_results([result_of(hook, until, matches=2)])
    after = store.webhooks.get(hook.name)
    assert (after.cursor, after.pending, after.messages, after.matches) == (until, None, 1, 2)
    assert due_ids(store) == [hook.id]  # for the third
    assert [match.post_id for match in queue.next_matches(after, 10)] == [3]


def test_a_failed_webhook_is_due_at_its_retry_and_a_disabled_one_never(store, clock):
    tea = store.subscriptions.add("tea")
    hook = store.webhooks.add(tea, URL)
    run_batch(store, 0, [1], [(tea, 0)])
    store.webhook_queue.fix_messages([(hook.id, 1)])
    store.webhook_queue.record_results([result_of(hook, 1, delivered=False, due_at=clock.now + 5)])
    run_batch(store, 1, [2], [(tea, 0)])
    assert due_ids(store) == []
    assert store.webhooks.get(hook.name).state == "retrying"
    clock.now += 5
    assert due_ids(store) == [hook.id]
    store.webhook_queue.record_results([result_of(hook, 1, delivered=False)])
    assert store.webhooks.get(hook.name).state == "disabled"
    assert (due_ids(store), store.webhook_queue.totals()) == ([], WebhookTotals(0, 0, 1, 0, 0))
    assert [webhook.error for webhook in store.webhook_queue.failing_webhooks(5)] == ["answered 500"]
    enabled = store.webhooks.enable(hook.name)
    assert (enabled.state, enabled.failures, enabled.pending, due_ids(store)) == ("active", 0, 1, [hook.id])


def test_due_webhooks_are_limited_per_host_and_owner_and_failing_ones_last(store, clock):
    hooks = [
        store.webhooks.add(store.subscriptions.add("tea", owner), f"https://{host}/")
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
    store.webhook_queue.fix_messages([(hooks[0].id, 1)])
    store.webhook_queue.record_results([result_of(hooks[0], 1, delivered=False, due_at=clock.now)])
    for limits, expected in (
        (DueLimits(9, 9, 9, 9), [2, 3, 4, 5, 6, 7, 1]),
        (DueLimits(2, 9, 9, 9), [2, 4, 5, 6, 7, 1]),  # without the third of ann at host a
        (DueLimits(9, 2, 9, 9), [4, 5, 6, 7, 1]),  # one each of ann and bob at host a, in turn
        (DueLimits(9, 9, 3, 9), [2, 3, 6, 7, 1]),
        (DueLimits(9, 9, 9, 2), [2, 3]),
    ):
        assert [hook.id for hook in store.webhook_queue.due(limits)] == expected
    assert hooks[5].host == "a"


def test_matches_deleted_before_delivery_do_not_block_a_webhook(store):
    tea = store.subscriptions.add("tea")
    hook = store.webhooks.add(tea, URL)
    run_batch(store, 0, [1, 2, 3], [(tea, 0), (tea, 1), (tea, 2)])
    store.webhook_queue.fix_messages([(hook.id, 2)])
    store.apply_retention(Retention(max_matches_per_subscription=1))
    stuck = store.webhooks.get(hook.name)
    assert store.webhook_queue.next_matches(stuck, 10) == []
    store.webhook_queue.mark_idle([stuck])
    assert [match.post_id for match in store.webhook_queue.next_matches(store.webhooks.get(hook.name), 10)] == [3]
    assert due_ids(store) == [hook.id]


def test_both_secrets_sign_for_a_day_after_a_rotation(store, clock):
    hook = store.webhooks.add(store.subscriptions.add("tea"), URL)
    rotated = store.webhooks.rotate_secret(hook.name)
    assert rotated.signing_secrets(clock.now) == [rotated.secret, hook.secret]
    assert rotated.signing_secrets(clock.now + OLD_SECRET_S) == [rotated.secret]
    assert rotated.secret.startswith("whsec_")
    assert rotated.secret != hook.secret


def test_the_log_keeps_the_last_attempts(store):
    hook = store.webhooks.add(store.subscriptions.add("tea"), URL)
    for number in range(LOGGED_ATTEMPTS + 5):
        store.webhooks.record_attempt(hook, Attempt(f"m{number}", 0, float(number), None, "no answer", 0.5))
    log = store.webhooks.attempts(hook.name)
    assert [attempt.message for attempt in log] == [f"m{number}" for number in reversed(range(5, LOGGED_ATTEMPTS + 5))]
    store.webhooks.remove(hook.name)
    store.webhooks.record_attempt(hook, log[0])  # an attempt that ended after the removal
    store.webhook_queue.record_results([result_of(hook, 1)])
    with pytest.raises(UnknownWebhook):
        store.webhooks.attempts(hook.name)


def test_the_lease_of_the_sender_is_exclusive(store, location):
    with open_store(location) as other:
        with store.lease("sender"), pytest.raises(StoreBusy, match="sender"), other.lease("sender"):
            pass
        with other.lease("sender"):
            pass


def visit_with_backlog(store, feed, backlog, at):
    url = next(row.url for row in store.feeds.all() if row.id == feed)
    store.feeds.record_visits([VisitRecord(feed, url, "ok", at, None, backlog=backlog)])


def sent_ids(store, hook):
    return [match.post_id for match in store.webhook_queue.next_matches(hook, 100)]


def test_the_backlog_of_a_feed_is_stored_but_not_sent(store, clock):
    tea, feed = store.subscriptions.add("tea"), store.feeds.add(FEED)
    hook = add_idle(store, tea)
    visit_with_backlog(store, feed, ["old 1", "old 2"], clock.now)
    run_batch(store, 0, ["old 1", "old 2"], [(tea, 0), (tea, 1)])
    due = due_ids(store)  # the new matches wake the webhook once
    store.webhook_queue.mark_idle([hook])
    assert (due, sent_ids(store, hook), due_ids(store)) == ([hook.id], [], [])
    assert read_ids(store, tea) == ["old 1", "old 2"]
    run_batch(store, 1, ["new", "old 1"], [(tea, 0), (tea, 1)])
    assert (due_ids(store), sent_ids(store, hook)) == ([hook.id], ["new"])
    until = store.matches.last_number()
    store.webhook_queue.fix_messages([(hook.id, until)])
    store.webhook_queue.record_results([result_of(hook, until)])
    assert due_ids(store) == []


def test_a_post_that_is_stored_already_does_not_become_backlog(store, clock):
    tea, feed = store.subscriptions.add("tea"), store.feeds.add(FEED)
    hook = add_idle(store, tea)
    run_batch(store, 0, ["a"], [(tea, 0)])
    visit_with_backlog(store, feed, ["a"], clock.now)  # the feed was removed and added again
    assert sent_ids(store, hook) == ["a"]


def test_an_integer_id_is_never_backlog(store, clock):
    tea, feed = store.subscriptions.add("tea"), store.feeds.add(FEED)
    visit_with_backlog(store, feed, ["7"], clock.now)
    run_batch(store, 0, [7], [(tea, 0)])
    assert sent_ids(store, store.webhooks.add(tea, URL, after=0)) == [7]


def test_marks_of_the_backlog_are_deleted_with_their_posts(store, clock):
    tea, feed = store.subscriptions.add("tea"), store.feeds.add(FEED)
    visit_with_backlog(store, feed, ["a"], clock.now)
    run_batch(store, 0, ["a"], [(tea, 0)])
    hook = store.webhooks.add(tea, URL, after=0)
    store.apply_retention(Retention())
    assert sent_ids(store, hook) == []
    clock.now += 2 * Retention().max_age_s
    store.apply_retention(Retention())
    run_batch(store, 1, ["a"], [(tea, 0)])  # an article with this id is new again
    assert sent_ids(store, hook) == ["a"]
