"""Regions switch their kind of query again and again: throughput with and without adjustment (PS²Stream VI-C)."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from tidings.balance.rebalance.local_policy import LocalSettings
from tidings.balance.rebalance.local_step import rebalanced
from tidings.index.builder import change_index, merge_index
from tidings_lab.datasets import Posts
from tidings_lab.located_posts import as_located, load_located
from tidings_lab.runner import Parameters, Row
from tidings_lab.simulated_spatial_matchers import Shift, SpaceFleet, side_by_side
from tidings_lab.spatial_workload import Tweets, draw_subscriptions

_STEPS_A_ROUND = 8  # times that cells may change hands before the next regions switch
_KINDS = ("none", "cells", "learned anew")


def steps(parameters: Parameters) -> int:
    return len(parameters["algorithms"])


def measure(posts: Posts, parameters: Parameters, seed: int) -> Iterator[tuple[str, list[Row]]]:
    """A row for each partitioner, kind of adjustment and round of switching. Plans are learned from some posts,
    adjusted by others, and measured with yet others."""
    learned, recent, tested = parameters["learned"], parameters["recent"], parameters["tested"]
    table = load_located(learned + recent + tested, seed)
    known, late, unseen = table.slice(0, learned), table.slice(learned, recent), table.slice(learned + recent)
    tweets, count = Tweets.of(known), parameters["subscriptions"]
    shares = np.arange(parameters["rounds"] + 1) * parameters["switching"]
    rounds = [draw_subscriptions("Q3", count, tweets, seed, flipped) for flipped in shares]
    for name in parameters["algorithms"]:
        with tempfile.TemporaryDirectory(prefix="tidings-lab-") as folder:
            make = partial(SpaceFleet.learned, name=name, workers=parameters["workers"], sample=as_located(known))
            fleets = {kind: make(Path(folder) / kind, rounds[0]) for kind in ("none", "cells")}
            rows: list[Row] = []
            for number in range(1, len(rounds)):
                switched = [_switched(fleets[kind], rounds[number - 1], rounds[number]) for kind in ("none", "cells")]
                adjusted, moved = _adjusted(switched[1], late)
                fleets = {"none": switched[0], "cells": adjusted}
                anew = make(Path(folder) / f"anew-{number}", rounds[number])
                shifts = [Shift(fleet, fleet.receive(unseen)) for fleet in (*fleets.values(), anew)]
                for kind, work in zip(_KINDS, side_by_side(shifts, parameters["repetitions"]), strict=True):
                    about = {"algorithm": name, "adjustment": kind, "round": number, "moved_bytes": moved}
                    rows.append({**about, **work.described()})
        yield name, rows


def _switched(fleet: SpaceFleet, before: pa.Table, after: pa.Table) -> SpaceFleet:
    """Subscriptions whose region kept its kind stay; the others are replaced by those of the other kind.

    The segments are merged: else whoever gives or takes cells would be ahead for having fewer of them.
    """
    other = np.array([a != b for a, b in zip(_asked(before), _asked(after), strict=True)])
    return SpaceFleet(merge_index(change_index(fleet.index, after.filter(pa.array(other)))[0]))


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
