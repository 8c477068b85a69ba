"""The assignment of feeds to crawlers is optimal, and latencies are measured."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.crawl.latency import Latencies, connect_once, measure_connects, read_latencies, write_latencies
from tidings.crawl.locality import assign_feeds, assign_min_latency
from tidings.errors import InputError

ROOT = Path(__file__).resolve().parents[2]
PLACES = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])


def test_assignment_of_three_feeds() -> None:
    """Three feeds are nearest to the first crawler, which takes two: the one with the smallest loss moves."""
    ms = np.array([[10.0, 50.0], [10.0, 15.0], [20.0, 90.0], [70.0, 30.0]])
    assert assign_min_latency(ms, [2, 2]).tolist() == [0, 1, 0, 1]
    assert assign_min_latency(ms, [4, 4]).tolist() == [0, 0, 0, 1]


def test_cheapest_path_leads_over_another_crawler() -> None:
    """The first is overfull, the third has capacity: the cheapest path leads over the second."""
    ms = np.array([[1.0, 2.0, 99.0], [1.0, 90.0, 99.0], [99.0, 1.0, 2.0]])
    assert assign_min_latency(ms, [1, 1, 1]).tolist() == [1, 0, 2]


@settings(max_examples=300, deadline=None)
@given(data=st.data(), feeds=st.integers(0, 7), crawlers=st.integers(1, 3))
def test_no_other_assignment_is_cheaper(data: st.DataObject, feeds: int, crawlers: int) -> None:
    steps = st.one_of(st.integers(0, 6), st.just(np.inf))
    ms = np.array(
        data.draw(st.lists(st.lists(steps, min_size=crawlers, max_size=crawlers), min_size=feeds, max_size=feeds)),
        float,
    )
    ms = ms.reshape(feeds, crawlers)
    capacities = data.draw(st.lists(st.integers(0, feeds), min_size=crawlers, max_size=crawlers))
    if sum(capacities) < feeds:
        with pytest.raises(InputError, match="do not fit"):
            assign_min_latency(ms, capacities)
        return
    far = np.where(np.isinf(ms), 1e6, ms)
    every = [one for one in product(range(crawlers), repeat=feeds) if _fits(one, capacities)]
    least = min(sum(far[feed, at] for feed, at in enumerate(one)) for one in every)
    chosen = assign_min_latency(ms, capacities)
    assert _fits(tuple(chosen.tolist()), capacities)
    assert far[np.arange(feeds), chosen].sum() == least


def _fits(assignment: tuple[int, ...], capacities: list[int]) -> bool:
    return all(assignment.count(crawler) <= room for crawler, room in enumerate(capacities))


def test_many_feeds_are_assigned_optimally_within_capacity() -> None:
    """No exchange along a cycle of crawlers is cheaper, which proves optimality."""
    rng = np.random.default_rng(5)
    ms = np.rint(rng.gamma(2.0, 40.0, (4_000, 6)) * rng.uniform(0.5, 2.0, 6))
    capacities = [800, 700, 700, 700, 600, 600]
    chosen = assign_min_latency(ms, capacities)
    loads = np.bincount(chosen, minlength=6)
    assert (loads <= capacities).all()
    extra = np.array([[_cheapest_move(ms, chosen, one, other) for other in range(6)] for one in range(6)])
    np.fill_diagonal(extra, 0.0)
    for _ in range(6):
        extra = np.minimum(extra, (extra[:, :, None] + extra[None, :, :]).min(axis=1))
    assert (np.diag(extra) >= 0).all()
    assert (extra[:, loads < capacities] >= 0).all()


def _cheapest_move(ms: np.ndarray, chosen: np.ndarray, source: int, target: int) -> float:
    feeds = chosen == source
    return float((ms[feeds, target] - ms[feeds, source]).min()) if feeds.any() else np.inf


def test_all_feeds_of_a_host_go_to_one_near_task() -> None:
    hosts = ["a.eu"] * 5 + ["b.eu"] * 4 + ["c.us"] * 5 + ["d.us"] * 4
    near = {(site, host): 10.0 if host.endswith(site) else 120.0 for site in ("eu", "us") for host in set(hosts)}
    tasks = ["us", "eu", "us", "eu"]
    given_to = assign_feeds(hosts, tasks, Latencies(near))
    for host in set(hosts):
        to = {int(task) for name, task in zip(hosts, given_to, strict=True) if name == host}
        assert len(to) == 1
        assert tasks[to.pop()] == host[-2:]
    assert np.bincount(given_to, minlength=4).tolist() == [5, 5, 4, 4]


def test_without_latencies_feeds_are_distributed_evenly() -> None:
    hosts = [f"host{number}" for number in range(1_000)]
    for tasks in (["here"] * 4, ["here", "there", "here", "elsewhere"]):
        counts = np.bincount(assign_feeds(hosts, tasks), minlength=4)
        assert counts.sum() == 1_000
        assert counts.max() <= 275
    with pytest.raises(InputError):
        assign_feeds(hosts, [])


def test_unknown_latency_is_the_median_of_the_site() -> None:
    known = Latencies({("eu", "a"): 10.0, ("eu", "b"): 30.0, ("us", "a"): 100.0})
    assert known.to_matrix(["a", "c"], ["eu", "us", "moon"]).tolist() == [[10, 100, 30], [20, 100, 30]]


def test_latency_file_round_trip_and_invalid_lines(tmp_path: Path) -> None:
    told = Latencies({("eu", "a.example"): 12.5, ("us", "b.example"): 80.0})
    file = tmp_path / "ms.csv"
    write_latencies(told, file)
    assert read_latencies(file) == told
    file.write_text("site,host,ms\neu,a,10\neu,,5\nus,b,far\nus,c,-1\n")
    with pytest.raises(InputError, match="line 3, 4, 5 has no site"):
        read_latencies(file)
    file.write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="columns site, host, ms"):
        read_latencies(file)
    with pytest.raises(InputError, match="cannot be read"):
        read_latencies(tmp_path / "none.csv")


def test_fastest_attempt_to_connect_is_reported() -> None:
    waits = {"near": iter([0.05, 0.0, 0.02]), "far": iter([0.06, 0.09, 0.08])}

    async def connect(host: str, port: int) -> None:
        if host == "dead":
            raise ConnectionRefusedError
        await asyncio.sleep(next(waits[host]))

    hosts = {name: (name, 80) for name in ("near", "far", "dead")}
    found = asyncio.run(measure_connects("here", hosts, connect)).ms
    assert set(found) == {("here", "near"), ("here", "far")}
    assert found["here", "near"] < 20 < 55 < found["here", "far"]


def test_connect_once_reaches_a_listening_server() -> None:
    async def both() -> Latencies:
        server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
        async with server:
            return await measure_connects("here", {"a": server.sockets[0].getsockname()}, connect_once)

    assert 0 < asyncio.run(both()).ms["here", "a"] < 1_000


def test_delays_between_network_namespaces_are_measured() -> None:
    """Real packets between two namespaces, delayed by `delayed_network`."""
    if shutil.which("unshare", path=PLACES) is None or shutil.which("ip", path=PLACES) is None:
        pytest.skip("unshare and ip are needed to make network namespaces")
    command = ["unshare", "-rn", sys.executable, "-m", "tests.crawl.delayed_network"]
    known = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    environment = {**os.environ, "PATH": PLACES, "PYTHONPATH": known}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=environment)
    if done.returncode:
        pytest.skip(f"delays between network namespaces cannot be made here: {done.stderr.strip()[-200:]}")
    found = {line.split()[0]: float(line.split()[1]) for line in done.stdout.splitlines()}
    assert 20 <= found["10.9.0.2"] < 60
    assert 80 <= found["10.9.0.3"] < 160
