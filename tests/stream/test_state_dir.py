"""A work directory of version 0.1 is migrated unless a stream uses it."""

from __future__ import annotations

import json

import pytest
from tests.stream.test_commit_queue import make_chunks

from tidings.errors import StoreBusy
from tidings.store import open_store
from tidings.store.lease import acquire
from tidings.stream.commit_queue import recover_spilled, spill
from tidings.stream.metrics.correlations import load_correlation_metrics
from tidings.stream.metrics.snapshot import load_snapshot
from tidings.stream.state_dir import migrate_state_dir, state_dir_lease

MARKER_0_1 = {
    "begun": {"stream": "s", "batch": 0, "index_version": 1, "plan_version": 1, "shed": ""},
    "result": {"figures": {"matching": 1.5}, "matchers": {"0": 3}, "owners": {"begun": 2}},
}
FIGURES_0_1 = {
    "pid": 1, "host": "h", "stream": "s", "source": "in", "started_at": 1.0, "updated_at": 2.0, "posts": 7,
    "unread_posts": 3,
    "matchers": [{"matcher": 0, "posts": 1, "matches": 2, "seconds": 3.0, "withheld": 4}],
}  # fmt: skip
CORRELATIONS_0_1 = {"window_us": 1, "slide_us": 1, "algorithm": "ds", "most_partitions": 8, "coefficients": 90}


@pytest.fixture
def work_dir(tmp_path):
    spill(make_chunks(0), tmp_path / "found" / "0000000000")
    (tmp_path / "correlations").mkdir()
    files = {
        "found/0000000000.json": MARKER_0_1,
        "followed.json": {"position": 5},
        "figures.json": FIGURES_0_1,
        "adjust.json": {"looked_at": 12.5},
        "correlations/figures.json": CORRELATIONS_0_1,
    }
    for name, content in files.items():
        (tmp_path / name).write_text(json.dumps(content))
    (tmp_path / "work.lock").touch()
    return tmp_path


@pytest.mark.parametrize("times", [1, 2])
def test_files_and_keys_of_0_1_are_renamed(work_dir, times):
    for _ in range(times):
        with state_dir_lease(work_dir):
            pass
    assert sorted(file.name for file in work_dir.iterdir()) == [
        "correlations", "metrics.json", "provenance.json", "rebalance.json", "spill", "work.lock",
    ]  # fmt: skip
    snapshot = load_snapshot(work_dir)
    assert (snapshot.posts, snapshot.matchers[0].posts) == (7, 1)
    assert json.loads((work_dir / "rebalance.json").read_text()) == {"evaluated_at": 12.5}
    metrics = load_correlation_metrics(work_dir / "correlations")
    assert (metrics.max_partitions, metrics.coefficients) == (8, 90)


def test_a_batch_spilled_by_0_1_is_recovered(work_dir):
    migrate_state_dir(work_dir)
    with open_store(work_dir) as store:
        store.subscriptions.add("tea")
        recover_spilled(store, work_dir / "spill")
        assert len(store.matches.since(1)) == 3
        assert store.shed_totals.read().owners == {"begun": 2}, "names of owners are not keys"
        assert store.batches.recent()[0].metrics == {"matching": 1.5}


def test_an_interrupted_migration_is_completed(work_dir):
    (work_dir / "found").rename(work_dir / "later")
    migrate_state_dir(work_dir)
    (work_dir / "later").rename(work_dir / "found")
    migrate_state_dir(work_dir)
    assert json.loads((work_dir / "spill" / "0000000000.json").read_text())["start"] == MARKER_0_1["begun"]


def test_metrics_of_0_1_are_read_before_the_migration(work_dir):
    assert load_snapshot(work_dir).posts == 7


def test_a_directory_in_use_is_not_migrated(work_dir):
    with acquire(work_dir / "work.lock", "stream", work_dir), pytest.raises(StoreBusy), state_dir_lease(work_dir):
        pass
    assert (work_dir / "found").exists()


def test_a_damaged_file_is_left_to_its_reader(work_dir):
    (work_dir / "adjust.json").write_text("{")
    migrate_state_dir(work_dir)
    assert (work_dir / "rebalance.json").read_text() == "{"
