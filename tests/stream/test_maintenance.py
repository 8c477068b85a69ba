"""Maintenance of a running stream."""

from __future__ import annotations

import threading

from tidings.store import open_store
from tidings.stream import maintenance
from tidings.stream.index_updater import IndexUpdater
from tidings.stream.options import StreamOptions


def test_a_failed_merge_is_logged_once(tmp_path, monkeypatch, events):
    monkeypatch.setattr(maintenance, "_INTERVAL_S", 0.01)
    rounds = threading.Semaphore(0)
    with open_store(tmp_path) as store:
        updater = IndexUpdater(store, tmp_path / "index")
        updater.merge_error = OSError(28, "No space left on device")
        monkeypatch.setattr(updater, "delete_old_versions", rounds.release)
        with maintenance.maintenance_loop(StreamOptions("posts", str(tmp_path), tmp_path), updater):
            for _ in range(3):
                assert rounds.acquire(timeout=30)
    (message,) = events
    assert message.startswith("index merge failed error=")
    assert "No space left" in message
