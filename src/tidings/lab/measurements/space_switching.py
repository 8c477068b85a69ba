"""Regions switch their kind of query again and again: throughput with and without adjustment (PS²Stream VI-C)."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from tidings.adjust.local import LocalSettings
from tidings.adjust.rebalance import rebalanced
from tidings.index.publish import change_index
from tidings.lab.conduct import Parameters, Row
from tidings.lab.datasets import Posts
from tidings.lab.located import as_located, load_located
from tidings.lab.space_fleet import SpaceFleet
from tidings.lab.spatial import Tweets, draw_subscriptions

_STEPS_A_ROUND = 4  # times that cells may change hands before the next regions switch


def steps(parameters: Parameters) -> int:
    return len(parameters["algorithms"]) * 2


def measure(posts: Posts, parameters: Parameters, seed: int) -> Iterator[tuple[str, list[Row]]]:
    """A row for each partitioner, with and without adjustment, and round of switching."""
    tested = parameters["tested"]
    table = load_located(parameters["learned"] + tested, seed)
    known, unseen = table.slice(0, parameters["learned"]), table.slice(parameters["learned"])
    tweets, count = Tweets.of(known), parameters["subscriptions"]
    shares = np.arange(parameters["rounds"] + 1) * parameters["switching"]
    rounds = [draw_subscriptions("Q3", count, tweets, seed, flipped) for flipped in shares]
    for name in parameters["algorithms"]:
        for adjusts in (False, True):
            with tempfile.TemporaryDirectory(prefix="tidings-lab-") as folder:
                fleet = SpaceFleet.learned(
                    Path(folder) / "index", rounds[0], name, parameters["workers"], as_located(known)
                )
                rows = []
                for number in range(1, len(rounds)):
                    fleet = _switched(fleet, rounds[number - 1], rounds[number])
                    moved = 0
                    if adjusts:
                        fleet, moved = _adjusted(fleet, unseen)
                    work = fleet.work(fleet.receive(unseen), None, parameters["repetitions"])
                    about = {"algorithm": name, "adjusted": adjusts, "round": number, "moved_bytes": moved}
                    rows.append({**about, **work.described()})
            yield f"{name}, {'with' if adjusts else 'without'} adjustment", rows


def _switched(fleet: SpaceFleet, before: pa.Table, after: pa.Table) -> SpaceFleet:
    """Subscriptions whose region kept its kind stay; the others are replaced by those of the other kind."""
    other = np.array([a != b for a, b in zip(_asked(before), _asked(after), strict=True)])
    return SpaceFleet(change_index(fleet.index, after.filter(pa.array(other)))[0])


def _asked(table: pa.Table) -> list[tuple[str, list[float]]]:
    return list(zip(table.column("query").to_pylist(), table.column("region").to_pylist(), strict=True))


def _adjusted(fleet: SpaceFleet, posts: pa.Table) -> tuple[SpaceFleet, int]:
    moved = 0
    for _ in range(_STEPS_A_ROUND):
        counted = fleet.noted(fleet.receive(posts))
        found = rebalanced(fleet.index, *counted, as_located(posts), LocalSettings(sigma=1.2))
        if found is None:
            break
        moved += found.size_bytes
        fleet = SpaceFleet(found.prepared.publish(fleet.index.version + 1))
    return fleet, moved
