"""What `tidings status` promises."""

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
from tidings.stream.metrics.snapshot import StreamFigures, save_figures

STATE = Path("tidings-state")


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TIDINGS_STATE", raising=False)
    monkeypatch.delenv("TIDINGS_WORK", raising=False)
    with open_store(STATE) as store:
        store.subscribe("storm")


@pytest.fixture
def said(capsys):
    def say(*arguments: str) -> str:
        assert run(["status", *arguments]) == 0
        printed = capsys.readouterr()
        assert printed.err == ""
        return printed.out

    return say


@pytest.fixture
def figures():
    """Of a stream this very process runs."""
    told = StreamFigures(
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
        waiting_posts=5_000,
        waiting_files=3,
        batch_seconds=0.5,
        durations_ms={"triggerExecution": 500, "addBatch": 400, "walCommit": 60, "queryPlanning": 0},
        index_version=17,
        segments=4,
        subscriptions=1,
        disk_bytes={"store": 1, "index": 2_500_000, "checkpoint": 40_000},
    )
    save_figures(STATE, told)
    return told


def test_where_no_stream_ever_ran_it_says_so_and_what_to_do(said):
    out = said()
    assert "no stream ever ran here" in out
    assert "begin with: tidings run --posts SOURCE" in out
    assert "1 subscriptions, 0 matches of 0 posts" in out
    told = json.loads(said("--json"))
    assert (told["condition"], told["figures"], told["batches"]) == ("never", None, [])


def test_a_running_stream_is_shown_with_its_figures(said, figures):
    out = said()
    for part in (
        f"running for 2 h, process {os.getpid()}",
        "123,456 posts, 7,890 matches, 12 rejected rows",
        "25,000 posts/s worked off, 1,000 arriving",
        "5,000 posts in 3 files",
        "number 41, 0.50 s, 20% of it Spark's own bookkeeping (addBatch 400 ms, walCommit 60 ms)",
        "version 17, segments 4, subscriptions 1",
        "replicated, version 1",
        "index 2.5 MB, checkpoint 40.0 KB",
    ):
        assert part in out


def test_json_is_one_object_with_everything(said, figures):
    out = said("--json")
    assert out.count("\n") == 1
    told = json.loads(out)
    assert told["condition"] == "running"
    assert told["figures"]["posts"] == 123_456
    assert told["bookkeeping_share"] == pytest.approx(0.2)
    assert told["stored"]["subscriptions"] == 1
    assert told["disk_bytes"]["store"] == told["stored"]["bytes"]
    assert told["disk_bytes"]["index"] == 2_500_000


@pytest.mark.parametrize(
    ("changed", "condition", "sentence"),
    [
        ({"updated_at": -600}, "stale", "has told nothing for 10 min; these figures are old"),
        ({"state": "stopped"}, "stopped", "run it again to go on where it stopped"),
        ({"state": "failed", "failure": "no \x1b[1mspace"}, "failed", " s ago: no space"),
        ({"pid": 2**22 + 1}, "gone", "ended without a word"),
        ({"pid": 2**22 + 1, "host": "elsewhere"}, "running", "process 4194305 on elsewhere"),
        ({"host": "elsewhere", "updated_at": -600}, "stale", "on elsewhere has told nothing"),
        ({"waiting_posts": None, "waiting_files": None, "batch": -1}, "running", "the source cannot tell"),
    ],
)
def test_the_condition_of_the_stream_is_told(said, figures, changed, condition, sentence):
    if "updated_at" in changed:  # so long before now, whenever that is: the tests before this one take minutes
        changed = {**changed, "updated_at": time.time() + changed["updated_at"]}
    save_figures(STATE, replace(figures, **changed))
    assert json.loads(said("--json"))["condition"] == condition
    out = said()
    assert sentence in out
    assert "\x1b" not in out


def test_a_stream_that_just_started_shows_the_batches_before(said, figures):
    with open_store(STATE) as store:
        batches.run(store, 3, [1], [(1, 0)])
    save_figures(STATE, replace(figures, stream=""))
    assert [one["batch"] for one in json.loads(said("--json"))["batches"]] == [3]


def test_matchers_are_listed_with_their_load(said, figures):
    loads = (MatcherLoad(0, 900, 30, 3.0), MatcherLoad(1, 100, 10, 1.0))
    last = (MatcherLoad(0, 90, 3, 0.03), MatcherLoad(1, 10, 1, 0.01))
    save_figures(STATE, replace(figures, plan="partitioned", matchers=loads, batch_matchers=last))
    out = said()
    rows = [line.split() for line in out.splitlines()]
    assert ["0", "900", "30", "3.0", "s", "90", "30", "ms", "75%"] in rows
    assert ["1", "100", "10", "1.0", "s", "10", "10", "ms", "25%"] in rows
    assert "the busiest took 1.50 times the mean" in out
    told = json.loads(said("--json"))["figures"]
    assert told["batch_matchers"][1] == {"matcher": 1, "posts": 10, "matches": 1, "seconds": 0.01, "withheld": 0}


def test_in_the_replicated_plan_the_load_is_that_of_all_workers(said, figures):
    load = (MatcherLoad(0, 900, 30, 3.0),)
    save_figures(STATE, replace(figures, plan="replicated", matchers=load, batch_matchers=load))
    out = said()
    assert "every worker holds the whole index" in out
    assert "all workers" in out


def test_the_last_batches_and_rejected_rows_are_listed(said, figures):
    rejected = pa.table(
        {"source": ["a\x1b[1m.jsonl"], "source_row": [3], "reason": ["it has no text"], "excerpt": ["{\x9b1m\n}"]}
    )
    with open_store(STATE) as store:
        for batch in range(8):
            batches.run(store, batch, [batch * 10, batch * 10 + 1], [(1, 0)], index_version=9, rejected=rejected)
        store.begin("s", 8, 10, 1)
    out = said()
    assert [line.split()[0] for line in out.split("last batches")[1].splitlines()[2:7]] == ["4", "5", "6", "7", "8"]
    assert "not done" in out
    assert "8 rejected rows" in out
    assert out.count("a.jsonl, row 3  it has no text") == 5
    assert not {"\x1b", "\x9b"} & set(out)
    told = json.loads(said("--json"))
    assert [one["state"] for one in told["batches"]] == ["done"] * 4 + ["begun"]
    assert told["rejected"][-1]["reason"] == "it has no text"


def test_what_is_shed_and_the_plan_are_told(said, figures):
    told = replace(
        figures,
        plan="partitioned",
        partitioner="salb+",
        plan_version=4,
        plan_value=3.6,
        plan_value_at_first=2.0,
        learning=True,
        shed="subscription",
        shed_level=3,
        shed_limit=2.5,
        accepted_latency_s=5.0,
        unread_posts=12_000,
        unread_seconds=3.2,
        withheld=700,
        matchers=(MatcherLoad(0, 900, 30, 3.0, 700),),
    )
    save_figures(STATE, told)
    with open_store(STATE) as store:
        store.begin("s", 0, 1, 1)
        store.commit_parts("s", 0, [], shed=ShedCounts({0: 1_500}, {"": 10, "ann": 2_000}))
    out = " ".join(said().split())
    assert "salb+, imbalance × spread 3.60 (2.00 when it was new), a new one is being learned" in out
    assert "12,000 posts unread (about 3.2 s of work): level 3, 2.5 matchers a post at most" in out
    assert "1,500 posts withheld from matchers; matches not looked for: ann 2,000, no owner 10" in out
    shown = json.loads(said("--json"))
    assert shown["withheld"] == {"posts": 1500, "matchers": {"0": 1500}, "owners": {"ann": 2000, "": 10}}
    assert {"shed", "shed_level", "shed_limit", "unread_posts", "unread_seconds", "plan_value"} <= set(shown["figures"])


def test_webhooks_that_do_not_deliver_are_told_and_why(said):
    assert "webhooks" not in said()
    with open_store(STATE) as store:
        subscription = store.subscribe("storm", "ann")
        hooks = [store.webhooks.add(subscription, f"https://{host}.example/x") for host in ("a", "b", "c")]
        store.database.run(
            "UPDATE webhook SET failures = 2, error = 'no answer', due_at = 1e9 WHERE id = ?", hooks[1].id
        )
        store.database.run("UPDATE webhook SET enabled = 0, error = 'gone', due_at = NULL WHERE id = ?", hooks[2].id)
        store.database.run("UPDATE webhook SET messages = 2000, matches = 3000")
    out = said()
    assert "1 active, 1 retrying, 1 disabled; 9,000 matches delivered in 6,000 messages" in out
    assert all(piece in out for piece in ("c.example", "2001-09-09T01:46:40Z", "no answer"))
    told = json.loads(said("--json"))["webhooks"]
    assert (told["retrying"], [one["host"] for one in told["troubled"]]) == (1, ["c.example", "b.example"])
    assert "whsec_" not in said("--json")
