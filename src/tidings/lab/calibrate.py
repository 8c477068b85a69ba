"""The constants of the load model, measured on the worker's own matcher: `python -m tidings.lab.calibrate TWEETS`.

c2 is what a post costs when nothing is asked for near it, c1 what every further subscription adds to that, c3 what
compiling a subscription into a delta segment takes, c4 what finding one to remove takes: processor time.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidings.index.conjunctions import Conjunctions
from tidings.index.decompile import decompile
from tidings.index.ids import find_ids
from tidings.index.publish import create_index
from tidings.index.segment import build_segment
from tidings.lab.spatial import Tweets, draw_subscriptions
from tidings.match.matcher import FlatMatcher
from tidings.partition.space.load import LoadModel
from tidings.receive.receiver import Received

_REPEATS = 5
_BATCH = 5_000


def calibrate(tweets: pa.Table, subscriptions: int = 100_000, posts: int = 20_000, seed: int = 1) -> LoadModel:
    """Measure on Q1 drawn from these tweets, with `subscriptions` and a tenth of them."""
    drawn = draw_subscriptions("Q1", subscriptions, Tweets.of(tweets), seed)
    with TemporaryDirectory() as folder:
        index, _ = create_index(Path(folder) / "index", drawn)
        live = index.shard(0)[0].segment
        received = index.receiver().receive(tweets.column("text").slice(0, posts).combine_chunks())
        where = np.column_stack([np.asarray(tweets.column(name).slice(0, posts)) for name in ("lon", "lat")])
        everything = decompile(live, np.zeros(0, np.uint8))
        few = everything.select(np.flatnonzero(everything.owner < subscriptions // 10))
        times = [_post_ns(part, live.ids, index.manifest.terms, received, where) for part in (few, everything)]
        check_ns = max(0.0, (times[1] - times[0]) / (0.9 * subscriptions))
        insert_ns = _least(lambda: build_segment(everything, live.ids)) / subscriptions
        delete_ns = _least(lambda: find_ids(live.ids, live.ids, live.id_hash, live.id_place)) / subscriptions
    return LoadModel(check_ns, times[0] - check_ns * subscriptions / 10, insert_ns, delete_ns)


def _post_ns(part: Conjunctions, ids: pa.Array, terms: int, received: Received, where: np.ndarray) -> float:
    matcher = FlatMatcher(build_segment(part, ids), terms)

    def run() -> None:
        for at in range(0, len(received), _BATCH):
            matcher.match(Received(received.terms, received.bounds[at : at + _BATCH]), where[at : at + _BATCH])

    return _least(run) / len(received)


def _least(work: Callable[[], object]) -> float:
    """Nanoseconds of the quickest of some runs."""
    taken = []
    for _ in range(_REPEATS):
        start = time.process_time_ns()
        work()
        taken.append(time.process_time_ns() - start)
    return float(min(taken))


if __name__ == "__main__":
    print(json.dumps(calibrate(pq.read_table(sys.argv[1], columns=["text", "lat", "lon"])).to_dict()))
