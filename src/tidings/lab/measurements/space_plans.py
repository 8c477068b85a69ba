"""Space partitioners on PS²Stream's query sets, with any number of workers (PS²Stream VI-B and VI-D)."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tidings.lab.conduct import Parameters, Row
from tidings.lab.datasets import Posts
from tidings.lab.located import as_located, load_located
from tidings.lab.space_fleet import SpaceFleet, renumbered
from tidings.lab.spatial import Tweets, draw_subscriptions


def steps(parameters: Parameters) -> int:
    return len(parameters["query_sets"]) * len(parameters["workers"]) * len(parameters["algorithms"])


def measure(posts: Posts, parameters: Parameters, seed: int) -> Iterator[tuple[str, list[Row]]]:
    """A row for each query set, number of workers and partitioner, on posts that no plan was learned from."""
    learned, tested = parameters["learned"], parameters["tested"]
    table = load_located(learned + tested, seed)
    known, unseen = table.slice(0, learned), table.slice(learned)
    tweets, count = Tweets.of(known), parameters["subscriptions"]
    for query_set in parameters["query_sets"]:
        subscriptions = draw_subscriptions(query_set, count, tweets, seed)
        new = renumbered(draw_subscriptions(query_set, max(1, tested // 10), tweets, seed + 1), count)
        for workers in parameters["workers"]:
            for name in parameters["algorithms"]:
                with tempfile.TemporaryDirectory(prefix="tidings-lab-") as folder:
                    start = time.perf_counter()
                    fleet = SpaceFleet.learned(Path(folder) / "index", subscriptions, name, workers, as_located(known))
                    seconds = time.perf_counter() - start
                    work = fleet.work(fleet.receive(unseen), new, parameters["repetitions"])
                    place = {"query_set": query_set, "workers": workers}
                    about = {**place, "algorithm": name, "building_seconds": seconds}
                    row = {**about, **work.described(), **fleet.memory()}
                yield f"{name} on {workers}, {query_set}", [row]
