"""Reading matches: backwards in pages, and what changed for an owner."""

from __future__ import annotations

from tests.store.batches import run_batch

from tidings.store.rows import NewSubscription


def test_pages_before_a_cursor_reach_every_match(store):
    subscription = store.subscriptions.add("storm")
    for batch in range(3):
        run_batch(store, batch, list(range(batch * 10, batch * 10 + 10)), [(subscription, row) for row in range(10)])
    seen, before = [], 2**53
    while page := store.matches.latest(subscription, 7, before=before):
        seen = [match.post_id for match in page] + seen
        before = page[0].cursor
    assert seen == list(range(30))


def test_changes_name_the_subscriptions_of_an_owner_with_new_matches(store):
    rows = [NewSubscription("storm", "ann"), NewSubscription("rain", "ann"), NewSubscription("snow", "bob")]
    storm, rain, snow = store.subscriptions.add_many(rows)
    run_batch(store, 1, [1, 2], [(storm, 0), (rain, 1), (snow, 1)])
    number = store.matches.last_number()
    assert store.matches.changed_since("ann", 0) == {storm: 1, rain: 1}
    assert store.matches.changed_since("ann", number) == {}
    run_batch(store, 2, [3, 1], [(storm, 0), (rain, 1), (snow, 0)])  # post 1 comes again, for another subscription
    assert store.matches.changed_since("ann", number) == {storm: 2, rain: 2}
    assert store.matches.changed_since("bob", number) == {snow: 2}
    assert store.matches.changed_among([storm, snow], number) == {storm, snow}
    assert store.matches.changed_among([storm, snow], store.matches.last_number()) == set()
    assert store.matches.changed_among([], 0) == set()
    store.subscriptions.remove(storm)
    assert store.matches.changed_among([storm, snow], store.matches.last_number()) == {storm}
    assert store.matches.changed_since("ann", number) == {rain: 2}
    assert store.subscriptions.ids("ann") == [rain]
