"""A stream whose database went away notices it while no posts arrive, and continues exactly once when it runs again."""

from __future__ import annotations

import pytest
from tests.stream.process import QUERIES, PostFeed, expected_matches, stored_matches, subscribe

from tidings.errors import LeaseLost
from tidings.stream import lease_watch
from tidings.stream.metrics.snapshot import load_snapshot
from tidings.testing.postgres import binaries, running_server
from tidings.testing.stream import StreamHarness

pytestmark = [pytest.mark.skipif(binaries() is None, reason="PostgreSQL is not installed"), pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def server():
    with running_server() as running:
        yield running


def wait_until_ended(stream):
    stream._thread.join(280)
    assert not stream._thread.is_alive(), "the stream did not notice that its lease is lost"


def test_an_idle_stream_ends_with_one_sentence_when_its_lease_is_lost(spark, server, tmp_path, monkeypatch):
    feed = PostFeed(tmp_path / "in")
    feed.add_files(1)
    subscribe(server.url, *QUERIES)
    harness = StreamHarness(spark, feed.folder, server.url, tmp_path / "work")
    with pytest.raises(LeaseLost, match=r"lost its lease .* start it again"), harness.running_stream() as stream:  # noqa: PT012
        stream.wait_for_posts(len(feed.rows))
        server.stop()
        server.start()
        wait_until_ended(stream)
    snapshot = load_snapshot(tmp_path / "work")
    assert snapshot is not None
    assert (snapshot.state, "lost its lease" in snapshot.failure) == ("failed", True)

    feed.add_files(1)
    monkeypatch.setattr(lease_watch, "CHECK_S", 600.0)  # the stream is stopped before it can notice
    with harness.running_stream() as stream:
        stream.wait_for_posts(feed.posts_per_file)
        server.stop()
    assert harness.snapshot.state == "stopped"
    server.start()
    assert stored_matches(server.url) == expected_matches(feed.rows, QUERIES)
