"""A stream that sheds: what is withheld and what is found is all there is, also after a crash."""

from __future__ import annotations

import json
import signal
from collections import Counter

import pytest
from tests.cli.runs import tidings
from tests.stream.process import Feed, run_once, stored, wanted

from tidings.store import open_store
from tidings.stream.metrics.snapshot import load_snapshot

pytestmark = pytest.mark.timeout(1_800)  # several starts of Spark
WORDS = ("storm", "fire", "match", "goal", "election", "music", "rain", "market", "city", "game")
IN_NO_TIME = ("--latency", "1 ms", "--matchers", "4", "--trigger", "1 s")  # whatever is unread is too much
FILES, KILLED = 5, 3


@pytest.fixture(scope="module", params=["subscription", pytest.param("random", marks=pytest.mark.long)])
def shed(request, tmp_path_factory):
    """Two runs that have to shed, the first of them killed when a batch that sheds was written."""
    folder = tmp_path_factory.mktemp("shedding")
    state, feed = folder / "state", Feed(folder / "in", posts_a_file=120)
    with open_store(state) as store:
        store.subscriptions.add_many([(word, f"owner{number % 2}") for number, word in enumerate(WORDS)])
    feed.put(FILES)
    options = ("--shed", request.param, *IN_NO_TIME)
    run = run_once(feed.folder, state, *options, crash=f"before committing@{KILLED}")
    assert run.process.returncode == -signal.SIGKILL, run.err
    with open_store(state) as store:
        (begun,) = (one for one in store.batches.recent() if one.state == "begun")
        before = store.shed_totals.read()
    run = run_once(feed.folder, state, *options)
    assert run.process.returncode == 0, run.err
    return request.param, state, feed, begun, before


def test_what_was_withheld_and_what_was_found_is_all_that_the_scan_finds(shed):
    _, state, feed, _, _ = shed
    with open_store(state) as store:
        owners = {one.id: one.owner for one in store.subscriptions.all()}
        lost = Counter(store.shed_totals.read().owners)
    found = stored(state)
    everything = wanted(feed.rows, WORDS)
    assert found < everything, "something was shed"
    assert Counter(owners[one] for one, _ in found) + lost == Counter(owners[one] for one, _ in everything)


def test_a_replay_sheds_what_the_batch_was_begun_with_and_counts_it_once(shed):
    policy, state, _, begun, before = shed
    told = json.loads(begun.shed)
    assert (told["policy"], begun.batch) == (policy, KILLED)
    with open_store(state) as store:
        ledger = {one.batch: one for one in store.batches.recent()}
        after = store.shed_totals.read()
    assert ledger[KILLED].shed == begun.shed
    assert {one.state for one in ledger.values()} == {"done"}
    counted = sum(int(one.metrics.get("withheld", 0)) for one in ledger.values())
    assert sum(after.matchers.values()) == counted > sum(before.matchers.values())


def test_levels_rise_while_the_load_is_too_much(shed):
    _, state, _, _, _ = shed
    with open_store(state) as store:
        limits = [json.loads(one.shed)["limit"] for one in store.batches.recent() if one.shed and one.batch <= KILLED]
    assert limits == sorted(limits, reverse=True)


def test_the_status_tells_what_is_shed_now_and_was_ever(shed):
    policy, state, _, _, _ = shed
    told = json.loads(tidings("status", "--json", "--state", state).out)
    with open_store(state) as store:
        totals = store.shed_totals.read()
    assert told["withheld"] == {
        "posts": sum(totals.matchers.values()),
        "matchers": {str(one): totals.matchers[one] for one in sorted(totals.matchers)},
        "owners": dict(totals.owners),
    }
    figures = told["figures"]
    assert (figures["shed"], figures["max_latency_s"]) == (policy, 0.001)
    assert figures["withheld"] == sum(load["withheld"] for load in figures["matchers"]) <= told["withheld"]["posts"]
    assert figures["shed_by_owner"] == told["withheld"]["owners"]
    text = tidings("status", "--state", state).out
    assert f"{policy}, 0.001 s accepted" in text
    assert "posts withheld from matchers" in text
    assert load_snapshot(state).execution_mode == "partitioned", "shedding needs matchers"
