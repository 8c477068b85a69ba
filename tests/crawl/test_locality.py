"""Locality: the assignment is the cheapest there is, and near feeds are really fetched from near."""

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

from tidings.crawl.latency import Latencies, measure_connects, open_and_close, read_latencies, write_latencies
from tidings.crawl.locality import assign, share_out
from tidings.errors import InputError

ROOT = Path(__file__).resolve().parents[2]
PLACES = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])


def test_feeds_by_hand() -> None:
    """Three feeds are nearest to the first crawler, which takes two: the one that loses least must go."""
    ms = np.array([[10.0, 50.0], [10.0, 15.0], [20.0, 90.0], [70.0, 30.0]])
    assert assign(ms, [2, 2]).tolist() == [0, 1, 0, 1]
    assert assign(ms, [4, 4]).tolist() == [0, 0, 0, 1]


def test_a_chain_is_found_where_moving_directly_costs_more() -> None:
    """The first is too full, the third has room: the cheapest way leads over the second."""
    ms = np.array([[1.0, 2.0, 99.0], [1.0, 90.0, 99.0], [99.0, 1.0, 2.0]])
    assert assign(ms, [1, 1, 1]).tolist() == [1, 0, 2]


@settings(max_examples=300, deadline=None)
@given(data=st.data(), feeds=st.integers(0, 7), crawlers=st.integers(1, 3))
def test_no_other_assignment_is_cheaper(data: st.DataObject, feeds: int, crawlers: int) -> None:
    steps = st.one_of(st.integers(0, 6), st.just(np.inf))
    ms = np.array(
        data.draw(st.lists(st.lists(steps, min_size=crawlers, max_size=crawlers), min_size=feeds, max_size=feeds)),
        float,
    )
    ms = ms.reshape(feeds, crawlers)
    rooms = data.draw(st.lists(st.integers(0, feeds), min_size=crawlers, max_size=crawlers))
    if sum(rooms) < feeds:
        with pytest.raises(InputError, match="do not fit"):
            assign(ms, rooms)
        return
    far = np.where(np.isinf(ms), 1e6, ms)
    every = [one for one in product(range(crawlers), repeat=feeds) if _fits(one, rooms)]
    least = min(sum(far[feed, at] for feed, at in enumerate(one)) for one in every)
    chosen = assign(ms, rooms)
    assert _fits(tuple(chosen.tolist()), rooms)
    assert far[np.arange(feeds), chosen].sum() == least


def _fits(assignment: tuple[int, ...], rooms: list[int]) -> bool:
    return all(assignment.count(crawler) <= room for crawler, room in enumerate(rooms))


def test_many_feeds_end_within_capacity_and_at_equilibrium_prices() -> None:
    """Too many to try all: no exchange along a chain of crawlers makes the whole cheaper (then nothing does)."""
    rng = np.random.default_rng(5)
    ms = np.rint(rng.gamma(2.0, 40.0, (4_000, 6)) * rng.uniform(0.5, 2.0, 6))
    rooms = [800, 700, 700, 700, 600, 600]
    chosen = assign(ms, rooms)
    loads = np.bincount(chosen, minlength=6)
    assert (loads <= rooms).all()
    extra = np.array([[_cheapest_move(ms, chosen, one, other) for other in range(6)] for one in range(6)])
    np.fill_diagonal(extra, 0.0)
    for _ in range(6):
        extra = np.minimum(extra, (extra[:, :, None] + extra[None, :, :]).min(axis=1))
    assert (np.diag(extra) >= 0).all()
    assert (extra[:, loads < rooms] >= 0).all()


def _cheapest_move(ms: np.ndarray, chosen: np.ndarray, one: int, other: int) -> float:
    mine = chosen == one
    return float((ms[mine, other] - ms[mine, one]).min()) if mine.any() else np.inf


def test_all_feeds_of_a_host_go_to_one_task_near_it() -> None:
    hosts = ["a.eu"] * 5 + ["b.eu"] * 4 + ["c.us"] * 5 + ["d.us"] * 4
    near = {(site, host): 10.0 if host.endswith(site) else 120.0 for site in ("eu", "us") for host in set(hosts)}
    tasks = ["us", "eu", "us", "eu"]
    given_to = share_out(hosts, tasks, Latencies(near))
    for host in set(hosts):
        to = {int(task) for name, task in zip(hosts, given_to, strict=True) if name == host}
        assert len(to) == 1
        assert tasks[to.pop()] == host[-2:]
    assert np.bincount(given_to, minlength=4).tolist() == [5, 5, 4, 4]


def test_without_latencies_feeds_are_shared_out_evenly() -> None:
    hosts = [f"host{number}" for number in range(1_000)]
    for tasks in (["here"] * 4, ["here", "there", "here", "elsewhere"]):
        counts = np.bincount(share_out(hosts, tasks), minlength=4)
        assert counts.sum() == 1_000
        assert counts.max() <= 275
    with pytest.raises(InputError):
        share_out(hosts, [])


def test_what_is_unknown_is_guessed_by_the_site() -> None:
    known = Latencies({("eu", "a"): 10.0, ("eu", "b"): 30.0, ("us", "a"): 100.0})
    assert known.between(["a", "c"], ["eu", "us", "moon"]).tolist() == [[10, 100, 30], [20, 100, 30]]


def test_latencies_survive_a_file_and_bad_lines_are_named(tmp_path: Path) -> None:
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


def test_connects_are_measured_and_the_fastest_attempt_counts() -> None:
    waits = {"near": iter([0.05, 0.0, 0.02]), "far": iter([0.06, 0.09, 0.08])}

    async def connect(host: str, port: int) -> None:
        if host == "dead":
            raise ConnectionRefusedError
        await asyncio.sleep(next(waits[host]))

    hosts = {name: (name, 80) for name in ("near", "far", "dead")}
    found = asyncio.run(measure_connects("here", hosts, connect)).ms
    assert set(found) == {("here", "near"), ("here", "far")}
    assert found["here", "near"] < 20 < 55 < found["here", "far"]


def test_a_plain_connection_reaches_a_listening_server() -> None:
    async def both() -> Latencies:
        server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
        async with server:
            return await measure_connects("here", {"a": server.sockets[0].getsockname()}, open_and_close)

    assert 0 < asyncio.run(both()).ms["here", "a"] < 1_000


def test_delays_between_network_namespaces_are_measured() -> None:
    """Real packets between two namespaces, held back on their way: see `delayed_network`."""
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
