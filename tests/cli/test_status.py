"""The command `tidings status`."""

from __future__ import annotations

import json
import os
import socket
import time
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from tests.store import batches

from tidings.cli.main import run
from tidings.matching.load import MatcherLoad
from tidings.store import ShedCounts, open_store
from tidings.stream.metrics.snapshot import StreamSnapshot, save_snapshot

STATE = Path("tidings-state")


@pytest.fixture(autouse=True)
def state_in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TIDINGS_STATE", raising=False)
    monkeypatch.delenv("TIDINGS_WORK", raising=False)
    with open_store(STATE) as store:
        store.subscriptions.add("storm")


@pytest.fixture
def run_status(capsys):
    def run_it(*arguments: str) -> str:
        assert run(["status", *arguments]) == 0
        printed = capsys.readouterr()
        assert printed.err == ""
        return printed.out

    return run_it


@pytest.fixture
def metrics():
    """Metrics of a stream that this process runs."""
    snapshot = StreamSnapshot(
        pid=os.getpid(),
        host=socket.gethostname(),
        stream="s",
        source="posts/",
        started_at=time.time() - 7300,
        updated_at=time.time(),
        batch=41,
        batches=42,
        posts=123_456,
        matches=7_890,
        rejected=12,
        posts_per_second=25_000.4,
        arriving_per_second=1_000,
        pending_posts=5_000,
        pending_files=3,
        batch_seconds=0.5,
        durations_ms={"triggerExecution": 500, "addBatch": 400, "walCommit": 60, "queryPlanning": 0},
        index_version=17,
        segments=4,
        subscriptions=1,
        disk_bytes={"store": 1, "index": 2_500_000, "checkpoint": 40_000},
    )
    save_snapshot(STATE, snapshot)
    return snapshot


def test_state_without_a_stream_shows_how_to_start_one(run_status):
    out = run_status()
    assert "no stream ever ran here" in out
    assert "start it with: tidings run --posts SOURCE" in out
    assert "1 subscriptions, 0 matches of 0 posts" in out
    status = json.loads(run_status("--json"))
    assert (status["condition"], status["metrics"], status["batches"]) == ("never", None, [])


def test_running_stream_is_shown_with_its_metrics(run_status, metrics):
    out = run_status()
    for part in (
        f"running for 2 h, process {os.getpid()}",
        "123,456 posts, 7,890 matches, 12 rejected rows",
        "25,000 posts/s processed, 1,000 arriving",
        "5,000 posts in 3 files",
        "number 41, 0.50 s, 20% of it overhead of Spark (addBatch 400 ms, walCommit 60 ms)",
        "version 17, segments 4, subscriptions 1",
        "replicated, version 1",
        "index 2.5 MB, checkpoint 40.0 KB",
    ):
        assert part in out


def test_json_is_one_object_with_all_parts(run_status, metrics):
    out = run_status("--json")
    assert out.count("\n") == 1
    status = json.loads(out)
    assert status["condition"] == "running"
    assert status["metrics"]["posts"] == 123_456
    assert status["bookkeeping_share"] == pytest.approx(0.2)
    assert status["stored"]["subscriptions"] == 1
    assert status["disk_bytes"]["store"] == status["stored"]["bytes"]
    assert status["disk_bytes"]["index"] == 2_500_000


@pytest.mark.parametrize(
    ("changed", "condition", "sentence"),
    [
        ({"updated_at": -600}, "stale", "has not reported for 10 min; the metrics are old"),
        ({"state": "stopped"}, "stopped", "run it again to continue"),
        ({"state": "failed", "failure": "no \x1b[1mspace"}, "failed", " s ago: no space"),
        ({"pid": 2**22 + 1}, "gone", "ended unexpectedly"),
        ({"pid": 2**22 + 1, "host": "elsewhere"}, "running", "process 4194305 on elsewhere"),
        ({"host": "elsewhere", "updated_at": -600}, "stale", "on elsewhere has not reported"),
        ({"pending_posts": None, "pending_files": None, "batch": -1}, "running", "unknown"),
    ],
)
def test_condition_of_the_stream_is_shown(run_status, metrics, changed, condition, sentence):
    if "updated_at" in changed:  # relative to now: earlier tests may take minutes
        changed = {**changed, "updated_at": time.time() + changed["updated_at"]}
    save_snapshot(STATE, replace(metrics, **changed))
    assert json.loads(run_status("--json"))["condition"] == condition
    out = run_status()
    assert sentence in out
    assert "\x1b" not in out


def test_stream_that_just_started_shows_earlier_batches(run_status, metrics):
    with open_store(STATE) as store:
        batches.run_batch(store, 3, [1], [(1, 0)])
    save_snapshot(STATE, replace(metrics, stream=""))
    assert [item["batch"] for item in json.loads(run_status("--json"))["batches"]] == [3]


def test_matchers_are_listed_with_their_load(run_status, metrics):
    loads = (MatcherLoad(0, 900, 30, 3.0), MatcherLoad(1, 100, 10, 1.0))
    last = (MatcherLoad(0, 90, 3, 0.03), MatcherLoad(1, 10, 1, 0.01))
    save_snapshot(STATE, replace(metrics, execution_mode="partitioned", matchers=loads, batch_matchers=last))
    out = run_status()
    rows = [line.split() for line in out.splitlines()]
    assert ["0", "900", "30", "3.0", "s", "90", "30", "ms", "75%"] in rows
    assert ["1", "100", "10", "1.0", "s", "10", "10", "ms", "25%"] in rows
    assert "load of the busiest in the last batch 1.50 × the mean" in out
    status = json.loads(run_status("--json"))["metrics"]
    assert status["batch_matchers"][1] == {"matcher": 1, "posts": 10, "matches": 1, "seconds": 0.01, "shed": 0}


def test_replicated_mode_shows_the_load_of_all_workers(run_status, metrics):
    load = (MatcherLoad(0, 900, 30, 3.0),)
    save_snapshot(STATE, replace(metrics, execution_mode="replicated", matchers=load, batch_matchers=load))
    out = run_status()
    assert "the index is replicated" in out
    assert "all workers" in out


def test_last_batches_and_rejected_rows_are_listed(run_status, metrics):
    rejected = pa.table(
        {"source": ["a\x1b[1m.jsonl"], "source_row": [3], "reason": ["it has no text"], "excerpt": ["{\x9b1m\n}"]}
    )
    with open_store(STATE) as store:
        for batch in range(8):
            batches.run_batch(store, batch, [batch * 10, batch * 10 + 1], [(1, 0)], index_version=9, rejected=rejected)
        store.batches.begin("s", 8, 10, 1)
    out = run_status()
    assert [line.split()[0] for line in out.split("last batches")[1].splitlines()[2:7]] == ["4", "5", "6", "7", "8"]
    assert "not finished" in out
    assert "8 rejected rows" in out
    assert out.count("a.jsonl, line 3  it has no text") == 5
    assert not {"\x1b", "\x9b"} & set(out)
    status = json.loads(run_status("--json"))
    assert [item["state"] for item in status["batches"]] == ["done"] * 4 + ["begun"]
    assert status["rejected"][-1]["reason"] == "it has no text"


def test_shedding_and_the_plan_are_shown(run_status, metrics):
    snapshot = replace(
        metrics,
        execution_mode="partitioned",
        partitioner="salb+",
        plan_version=4,
        plan_value=3.6,
        plan_value_when_learned=2.0,
        is_building_plan=True,
        shed="subscription",
        shed_level=3,
        shed_limit=2.5,
        max_latency_s=5.0,
        backlog_posts=12_000,
        backlog_seconds=3.2,
        shed_posts=700,
        matchers=(MatcherLoad(0, 900, 30, 3.0, 700),),
    )
    save_snapshot(STATE, snapshot)
    with open_store(STATE) as store:
        store.batches.begin("s", 0, 1, 1)
        store.batches.commit_chunks("s", 0, [], shed=ShedCounts({0: 1_500}, {"": 10, "ann": 2_000}))
    out = " ".join(run_status().split())
    assert "salb+, imbalance × spread 3.60 (2.00 when learned), learning a new one" in out
    assert "12,000 posts in the backlog (about 3.2 s of work): level 3, 2.5 matchers per post at most" in out
    assert "1,500 posts shed in all runs; possible matches lost by owner: ann 2,000, no owner 10" in out
    shown = json.loads(run_status("--json"))
    assert shown["shed"] == {"posts": 1500, "matchers": {"0": 1500}, "owners": {"ann": 2000, "": 10}}
    assert {"shed", "shed_level", "shed_limit", "backlog_posts", "backlog_seconds", "plan_value"} <= set(
        shown["metrics"]
    )


def test_failing_webhooks_are_listed_with_reasons(run_status):
    assert "webhooks" not in run_status()
    with open_store(STATE) as store:
        subscription = store.subscriptions.add("storm", "ann")
        webhooks = [store.webhooks.add(subscription, f"https://{host}.example/x") for host in ("a", "b", "c")]
        store.database.execute(
            "UPDATE webhook SET failures = 2, error = 'no answer', due_at = 1e9 WHERE id = ?", webhooks[1].id
        )
        store.database.execute(
            "UPDATE webhook SET enabled = 0, error = 'gone', due_at = NULL WHERE id = ?", webhooks[2].id
        )
        store.database.execute("UPDATE webhook SET messages = 2000, matches = 3000")
    out = run_status()
    assert "1 active, 1 retrying, 1 disabled; 9,000 matches delivered in 6,000 messages" in out
    assert all(piece in out for piece in ("c.example", "2001-09-09T01:46:40Z", "no answer"))
    status = json.loads(run_status("--json"))["webhooks"]
    assert (status["retrying"], [item["host"] for item in status["failing"]]) == (1, ["c.example", "b.example"])
    assert "whsec_" not in run_status("--json")


def test_the_global_step_shows_its_phase_numbers_and_failures(run_status, metrics):
    evaluation = {
        "at": 1_790_000_000.0, "learned_posts": 20_000, "judged_posts": 10_000, "load_ns_per_post": 90.0,
        "new_load_ns_per_post": 60.0, "gain": 0.3333, "gain_error": 0.021, "is_adopted": True,
    }  # fmt: skip
    failure = {"count": 2, "reason": "No space left on device", "retry_at": 1_790_000_240.0}
    changes = {"previous_plan_share": 0.35, "last_evaluation": evaluation, "rebalance_failure": failure}
    save_snapshot(STATE, replace(metrics, **changes))
    out = " ".join(run_status().split())
    assert "two plans 65% of the subscriptions are placed by the new plan; the others move in slices" in out
    assert "2026-09-21T14:13:20Z: a new plan has 33.3% ± 2.1% less load on its busiest matcher" in out
    assert "(learned from 20,000 posts, judged by 10,000): adopted" in out
    assert "failed 2 times in a row: No space left on device; next attempt at 2026-09-21T14:17:20Z" in out
    assert json.loads(run_status("--json"))["metrics"]["last_evaluation"] == evaluation
