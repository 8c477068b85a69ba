"""Keeping a running stream within its bounds."""

from __future__ import annotations

import threading

from tidings.store import open_store
from tidings.stream import maintenance
from tidings.stream.index_updater import Follower
from tidings.stream.options import StreamRequest


def test_a_merge_that_failed_is_told_once(tmp_path, monkeypatch):
    monkeypatch.setattr(maintenance, "_TIDY_S", 0.01)
    said: list[str] = []
    turns = threading.Semaphore(0)
    with open_store(tmp_path) as store:
        follower = Follower(store, tmp_path / "index")
        follower.merging_failure = OSError(28, "No space left on device")
        monkeypatch.setattr(follower, "retire", turns.release)
        with maintenance.tidied(StreamRequest("posts", str(tmp_path), tmp_path), follower, said.append):
            for _ in range(3):
                assert turns.acquire(timeout=30)
    assert [("could not be merged" in line, "No space" in line) for line in said] == [(True, True)]
