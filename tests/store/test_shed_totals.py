"""What was shed is counted with its batch, once, and for ever; and a new plan is asked for through the store."""

from __future__ import annotations

import pytest
from tests.store.batches import matches, posts

from tidings.errors import StoreError
from tidings.store import Found, ShedCounts, open_store
from tidings.store.schema import MIGRATIONS

NOTHING = Found(posts([]), matches([]), posts([]).rename_columns(["source_row", "reason"]))


def shed(store, batch: int, counts: ShedCounts, **more) -> None:
    store.begin("s", batch, 1, 1)
    store.commit_parts("s", batch, [NOTHING], shed=counts, **more)


def test_what_was_shed_adds_up_over_batches(store):
    shed(store, 0, ShedCounts({0: 5, 3: 2, 4: 0}, {"ann": 7, "": 1}))
    shed(store, 1, ShedCounts({3: 10}, {"ann": 1, "bob": 2}))
    assert store.withheld() == ShedCounts({3: 12, 0: 5}, {"ann": 8, "bob": 2, "": 1})
    assert store.withheld(owners=1).owners == {"ann": 8}


def test_a_batch_that_is_stored_already_or_not_at_all_counts_nothing(store):
    shed(store, 0, ShedCounts({0: 5}, {"ann": 5}))
    shed(store, 0, ShedCounts({0: 5}, {"ann": 5}))

    def crash() -> None:
        raise StoreError("killed")

    with pytest.raises(StoreError):
        shed(store, 1, ShedCounts({0: 9}, {"ann": 9}), before_commit=crash)
    assert store.withheld() == ShedCounts({0: 5}, {"ann": 5})


def test_a_batch_that_is_begun_again_sheds_what_it_was_begun_with(store):
    assert store.begin("s", 0, 1, 1, shed="level 3").shed == "level 3"
    again = store.begin("s", 0, 2, 2, shed="level 5")
    assert (again.shed, again.replay) == ("level 3", True)
    assert store.ledger()[0].shed == "level 3"


def test_a_new_plan_is_asked_for_until_it_is_there(store):
    assert store.relearning_asked() == 0
    store.ask_to_relearn()
    store.ask_to_relearn()
    asked = store.relearning_asked()
    store.ask_to_relearn()
    store.relearned(asked)
    assert store.relearning_asked() > asked, "what was asked for meanwhile is not forgotten"
    store.relearned(store.relearning_asked())
    assert store.relearning_asked() == 0


def test_owners_are_told_from_an_id_on_also_of_removed_subscriptions(store):
    first, second = store.subscribe("a", "ann"), store.subscribe("b", "bob")
    store.unsubscribe(second)
    assert store.owners() == [(first, "ann"), (second, "bob")]
    assert store.owners(first) == [(second, "bob")]


def test_a_store_from_before_is_brought_up_to_date(tmp_path, monkeypatch):
    from tidings.store import schema

    monkeypatch.setattr(schema.migrate, "__defaults__", (MIGRATIONS[:1],))
    with open_store(tmp_path) as store:
        store.database.run(
            "INSERT INTO batch (stream, batch, index_version, plan_version, state, started_at, posts, matches, "
            "rejected, figures) VALUES ('s', 0, 1, 1, 'begun', 0, 0, 0, 0, '{}')"
        )
    monkeypatch.undo()
    with open_store(tmp_path) as store:
        assert store.begin("s", 0, 2, 2).shed == ""
        assert store.withheld() == ShedCounts()
