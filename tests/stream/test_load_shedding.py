"""A stream that sheds load: shed and found matches are all matches, also after a crash."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from tests.cli.runs import run_command
from tests.stream.process import PostFeed, expected_matches, run_to_kill, stored_matches

from tidings.store import open_store
from tidings.stream.metrics.snapshot import load_snapshot
from tidings.testing.stream import StreamHarness

WORDS = ("storm", "fire", "match", "goal", "election", "music", "rain", "market", "city", "game")
OVERLOAD = {"max_latency_s": 0.001, "matchers": 4, "execution_mode": "partitioned"}  # any backlog is too much
FILES, CRASHED = 5, 3


def subscribe_owners(state) -> None:
    with open_store(state) as store:
        store.subscriptions.add_many([(word, f"owner{number % 2}") for number, word in enumerate(WORDS)])


def assert_all_matches_are_found_or_counted(state, feed) -> None:
    with open_store(state) as store:
        owners = {subscription.id: subscription.owner for subscription in store.subscriptions.all()}
        lost = Counter(store.shed_totals.read().owners)
    found, everything = stored_matches(state), expected_matches(feed.rows, WORDS)
    assert found < everything, "nothing was shed"
    found_by_owner = Counter(owners[subscription] for subscription, _ in found)
    assert found_by_owner + lost == Counter(owners[subscription] for subscription, _ in everything)


@pytest.fixture(scope="module", params=["subscription", "random"])
def shed(request, spark, tmp_path_factory):
    """Two runs under overload, the first of them with a crash when a batch that sheds was written."""
    folder = tmp_path_factory.mktemp("shedding")
    state, feed = folder / "state", PostFeed(folder / "in", posts_per_file=120)
    subscribe_owners(state)
    feed.add_files(FILES)
    harness = StreamHarness(spark, feed.folder, state, shed=request.param, trigger="1 second", **OVERLOAD)
    harness.crash("before-commit", CRASHED)
    with open_store(state) as store:
        (begun,) = (batch for batch in store.batches.recent() if batch.state == "begun")
        before = store.shed_totals.read()
    harness.run()
    return request.param, state, feed, begun, before


def test_shed_and_found_matches_are_all_matches(shed):
    _, state, feed, *_ = shed
    assert_all_matches_are_found_or_counted(state, feed)


def test_a_replay_sheds_what_the_batch_began_with_and_counts_it_once(shed):
    policy, state, _, begun, before = shed
    assert (json.loads(begun.shed)["policy"], begun.batch) == (policy, CRASHED)
    with open_store(state) as store:
        ledger = {batch.batch: batch for batch in store.batches.recent()}
        after = store.shed_totals.read()
    assert ledger[CRASHED].shed == begun.shed
    assert {batch.state for batch in ledger.values()} == {"done"}
    counted = sum(int(batch.metrics.get("shed", 0)) for batch in ledger.values())
    assert sum(after.matchers.values()) == counted > sum(before.matchers.values())


def test_levels_rise_under_overload(shed):
    _, state, *_ = shed
    with open_store(state) as store:
        batches = [batch for batch in store.batches.recent() if batch.shed and batch.batch <= CRASHED]
    limits = [json.loads(batch.shed)["limit"] for batch in batches]
    assert limits == sorted(limits, reverse=True)


def test_the_status_shows_current_and_total_shedding(shed):
    policy, state, *_ = shed
    status = json.loads(run_command("status", "--json", "--state", state).out)
    with open_store(state) as store:
        totals = store.shed_totals.read()
    assert status["shed"] == {
        "posts": sum(totals.matchers.values()),
        "matchers": {str(matcher): totals.matchers[matcher] for matcher in sorted(totals.matchers)},
        "owners": dict(totals.owners),
    }
    metrics = status["metrics"]
    assert (metrics["shed"], metrics["max_latency_s"]) == (policy, 0.001)
    assert metrics["shed_posts"] == sum(load["shed"] for load in metrics["matchers"]) <= status["shed"]["posts"]
    assert metrics["shed_by_owner"] == status["shed"]["owners"]
    text = run_command("status", "--state", state).out
    assert f"{policy}, 0.001 s maximum latency" in text
    assert load_snapshot(state).execution_mode == "partitioned", "shedding needs matchers"


@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_a_killed_process_sheds_the_same_in_the_replay(spark, tmp_path):
    state, feed = tmp_path / "state", PostFeed(tmp_path / "in", posts_per_file=120)
    subscribe_owners(state)
    feed.add_files(FILES)
    options = ("--shed", "subscription", "--max-latency", "1 ms", "--matchers", "4", "--trigger", "1 s")
    run_to_kill(feed.folder, state, f"before-commit@{CRASHED}", *options)
    StreamHarness(spark, feed.folder, state, shed="subscription", **OVERLOAD).run()
    assert_all_matches_are_found_or_counted(state, feed)
