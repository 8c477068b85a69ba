"""An index is used only with the store it was made from, as that store is now."""

from __future__ import annotations

import shutil

import pytest

from tidings.store import Retention, open_store
from tidings.stream.index_updater import Follower
from tidings.stream.provenance import Lineage


def followed(store, folder) -> Lineage:
    """What a run leaves behind: an index with all changes of the store, and the note of them."""
    lineage = Lineage(store, folder)
    follower = Follower(store, folder / "index")
    lineage.note(follower.refresh().manifest.position)
    follower.until_made()
    return lineage


@pytest.fixture
def ran(tmp_path):
    """A store with two subscriptions that was followed, and a copy of it made when there was one."""
    with open_store(tmp_path / "store") as store:
        store.subscribe("storm")
    shutil.copytree(tmp_path / "store", tmp_path / "copy")
    with open_store(tmp_path / "store") as store:
        store.subscribe("secret merger")
        followed(store, tmp_path)
    return tmp_path


def test_a_store_that_went_on_is_still_the_one(ran):
    with open_store(ran / "store") as store:
        store.subscribe("flowers")
        assert Lineage(store, ran).holds()


def test_a_store_put_back_from_a_copy_is_another_also_when_as_much_has_changed_since(ran):
    with open_store(ran / "copy") as store:
        assert not Lineage(store, ran).holds()
        assert store.subscribe("flowers") == 2  # the id that the merger had
        lineage = Lineage(store, ran)
        assert not lineage.holds()
        lineage.forget()
        assert not (ran / "index").exists()
        assert followed(store, ran).holds()


def test_another_store_is_another(ran):
    with open_store(ran / "new") as store:
        assert not Lineage(store, ran).holds()
        store.subscribe_many([("a",), ("b",), ("c",)])
        assert not Lineage(store, ran).holds()


def test_a_change_that_the_store_has_forgotten_is_no_reason_for_doubt(ran):
    with open_store(ran / "store") as store:
        store.retain(Retention(max_age_s=-1))
        assert Lineage(store, ran).holds()


def test_an_index_of_which_nothing_was_noted_is_used_if_the_store_has_as_many_changes(ran):
    (ran / "followed.json").unlink()
    with open_store(ran / "store") as store:
        assert Lineage(store, ran).holds()
    with open_store(ran / "copy") as store:
        assert not Lineage(store, ran).holds()
