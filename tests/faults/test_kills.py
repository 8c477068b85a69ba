"""A service whose processes are killed under load loses nothing, stores nothing twice and finds nothing wrong."""

from __future__ import annotations

import pytest

from tidings.testing.faults import DATABASE_KINDS, SERVICE_KINDS, FaultPlan, run_faults
from tidings.testing.postgres import running_server

KILLS = 50


def check(report, plan):
    print(report)
    assert report.problems == []
    assert sum(report.kills.values()) == plan.kills
    assert report.acknowledged >= max(plan.posts, 100)
    assert report.matches > report.acknowledged
    assert report.changes > 0
    assert report.webhook_messages > 0


@pytest.mark.timeout(2_400)
def test_killed_stream_and_sender_lose_and_repeat_nothing(tmp_path):
    plan = FaultPlan(seed=3, kills=2, kinds=("stream", "sender"), publish_every_s=0.2)
    check(run_faults(tmp_path, plan), plan)


@pytest.mark.long
@pytest.mark.timeout(7_200)
def test_fifty_kills_of_all_kinds_lose_and_repeat_nothing_with_sqlite(tmp_path):
    plan = FaultPlan(seed=2013, kills=KILLS)
    report = run_faults(tmp_path, plan, log=print)
    check(report, plan)
    assert set(report.kills) == set(SERVICE_KINDS)


@pytest.mark.long
@pytest.mark.timeout(7_200)
def test_fifty_kills_of_all_kinds_lose_and_repeat_nothing_with_postgresql(tmp_path):
    plan = FaultPlan(seed=2014, kills=KILLS)
    with running_server(survives_crash=True) as server:
        report = run_faults(tmp_path, plan, server, log=print)
    check(report, plan)
    assert set(report.kills) == {*SERVICE_KINDS, *DATABASE_KINDS}


@pytest.mark.long
@pytest.mark.timeout(3_600)
def test_ten_thousand_acknowledged_posts_survive_kills(tmp_path):
    plan = FaultPlan(seed=2015, kills=12, posts=10_000, publish_every_s=0.1, group_posts=20)
    check(run_faults(tmp_path, plan, log=print), plan)
