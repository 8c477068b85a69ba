"""An index is used only with the store it was derived from, as that store is now."""

from __future__ import annotations

import shutil

import pytest

from tidings.store import Retention, open_store
from tidings.stream.index_updater import IndexUpdater
from tidings.stream.provenance import StoreProvenance


def build_index(store, folder) -> StoreProvenance:
    """Leave what a run leaves: an index with all changes of the store, and its provenance."""
    provenance = StoreProvenance(store, folder)
    updater = IndexUpdater(store, folder / "index")
    provenance.record(updater.refresh().manifest.log_position)
    updater.wait_for_build()
    return provenance


@pytest.fixture
def work_dir(tmp_path):
    """A store with two subscriptions and its index, and a copy of the store made when there was one."""
    with open_store(tmp_path / "store") as store:
        store.subscriptions.add("storm")
    shutil.copytree(tmp_path / "store", tmp_path / "copy")
    with open_store(tmp_path / "store") as store:
        store.subscriptions.add("secret merger")
        build_index(store, tmp_path)
    return tmp_path


def test_a_store_with_later_changes_matches(work_dir):
    with open_store(work_dir / "store") as store:
        store.subscriptions.add("flowers")
        assert StoreProvenance(store, work_dir).matches_store()


def test_a_restored_copy_does_not_match_even_after_as_many_changes(work_dir):
    with open_store(work_dir / "copy") as store:
        assert not StoreProvenance(store, work_dir).matches_store()
        assert store.subscriptions.add("flowers") == 2, "the id of the secret merger"
        provenance = StoreProvenance(store, work_dir)
        assert not provenance.matches_store()
        provenance.discard_derived_state()
        assert not (work_dir / "index").exists()
        assert build_index(store, work_dir).matches_store()


def test_another_store_does_not_match(work_dir):
    with open_store(work_dir / "new") as store:
        assert not StoreProvenance(store, work_dir).matches_store()
        store.subscriptions.add_many([("a",), ("b",), ("c",)])
        assert not StoreProvenance(store, work_dir).matches_store()


def test_a_change_deleted_by_retention_is_no_mismatch(work_dir):
    with open_store(work_dir / "store") as store:
        store.apply_retention(Retention(max_age_s=-1))
        assert StoreProvenance(store, work_dir).matches_store()


def test_without_provenance_the_position_of_the_index_decides(work_dir):
    (work_dir / "provenance.json").unlink()
    with open_store(work_dir / "store") as store:
        assert StoreProvenance(store, work_dir).matches_store()
    with open_store(work_dir / "copy") as store:
        assert not StoreProvenance(store, work_dir).matches_store()
