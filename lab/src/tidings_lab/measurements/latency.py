"""From an article being there to a reader having it: crawling, network, matching, polling (the talk: total latency)."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.crawl.schedule import Pace
from tidings.index.builder import create_index
from tidings.matching.segment_matcher import FlatMatcher, no_positions
from tidings.store import open_store
from tidings_lab.datasets import Posts, sample_texts
from tidings_lab.history import load_history
from tidings_lab.network_model import CITIES, World, city_rtt_ms
from tidings_lab.polling import every, poll, scheduled
from tidings_lab.runner import Parameters, Row
from tidings_lab.sample_queries import draw_queries

_PARTS = ("crawl", "network", "match", "poll")


def steps(parameters: Parameters) -> int:
    return len(parameters["crawling"]) * len(parameters["reading"]) + 1


def data(parameters: Parameters, seed: int) -> dict[str, object]:
    return load_history(seed).described()


def measure(posts: Posts, parameters: Parameters, seed: int) -> Iterator[tuple[str, list[Row]]]:
    """A row for each way to crawl, way to read and part of the way: percentiles, and its share of the whole."""
    history = load_history(seed)
    rng = np.random.default_rng([seed, 80])
    match_s = _stream_s(posts, parameters, seed) if parameters["spark"] else _plain_s(posts, parameters, seed)
    yield (
        "matching",
        [{"part": "match", "kind": "measured", "p50_s": float(np.median(match_s)), "spark": parameters["spark"]}],
    )
    for crawling in parameters["crawling"]:
        visits = scheduled(Pace()) if crawling == "scheduler" else every(60.0 * parameters["crawl_min"])
        waits = poll(history, visits).waits_s
        network = _network_s(len(waits), history.document_bytes(), seed)
        for reading in parameters["reading"]:
            polled = (
                rng.uniform(0, 60.0 * parameters["poll_min"], len(waits))
                if reading == "polled"
                else np.zeros(len(waits))
            )
            parts = dict(zip(_PARTS, (waits, network, rng.choice(match_s, len(waits)), polled), strict=True))
            about = {"kind": "total", "crawling": crawling, "reading": reading}
            yield f"{crawling}, {reading}", [{**about, **row} for row in _rows(parts)]


def _rows(parts: dict[str, NDArray[np.float64]]) -> Iterator[Row]:
    total = sum(parts.values(), np.zeros(1))
    for part, seconds in {**parts, "inside": parts["network"] + parts["match"], "total": total}.items():
        middle = {f"p{p}_s": float(np.percentile(seconds, p)) for p in (50, 90, 99)}
        yield {"part": part, **middle, "mean_s": float(seconds.mean()), "share": float(seconds.mean() / total.mean())}


def _network_s(articles: int, sizes: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    """Fetching from the nearest of four crawlers, half a round trip to the filter, and a moment to the reflector."""
    sites = ["Boston", "London", "Tokyo", "San Jose"]
    world = World.made(articles, sites, sizes, seed)
    nearest = world.rtt_ms.argmin(axis=1)
    rng = np.random.default_rng([seed, 81])
    inside = city_rtt_ms(sites, [next(iter(CITIES))], rng)[nearest, 0]  # filter and reflector are in one data centre
    seconds: NDArray[np.float64] = (world.fetch_ms(nearest) + inside / 2 + rng.gamma(2.0, 0.1, articles)) / 1000
    return seconds


def _stream_s(posts: Posts, parameters: Parameters, seed: int) -> NDArray[np.float64]:
    """From a file of posts to its matches being stored, in a stream on Spark: drawn from its percentiles."""
    import tidings
    from tidings_lab.bench_stream import WORDS, measure_latency

    rng = np.random.default_rng([seed, 82])
    queries = draw_queries(sample_texts(posts, rng), parameters["subscriptions"], rng, *WORDS).to_pylist()
    with tempfile.TemporaryDirectory(prefix="tidings-lab-") as name:
        for turn, seconds in (("cold", parameters["warming"]), ("warm", parameters["seconds"])):
            found = measure_latency(Path(name) / turn, posts, queries, parameters["rate"], seconds, lambda _: None)
    tidings.session().stop()
    told = [found[f"p{p}_ms"] / 1000 for p in (50, 50, 95, 99)]
    drawn: NDArray[np.float64] = np.interp(rng.uniform(0, 99, 1_000), (0, 50, 95, 99), told)
    return drawn


def _plain_s(posts: Posts, parameters: Parameters, seed: int) -> NDArray[np.float64]:
    """The same without Spark: receive, match and store some batches in this process."""
    rng = np.random.default_rng([seed, 82])
    queries = draw_queries(sample_texts(posts, rng), parameters["subscriptions"], rng)
    ids, taken = np.arange(1, len(queries) + 1), []
    with tempfile.TemporaryDirectory(prefix="tidings-lab-") as name, open_store(Path(name) / "state") as store:
        store.subscribe_many([(query,) for query in queries.to_pylist()])
        index, _ = create_index(Path(name) / "index", pa.table({"id": ids, "query": queries}))
        receiver, matcher = index.receiver(), FlatMatcher(index.shard(0)[0].segment, index.manifest.terms)
        size = max(1, parameters["rate"] // 2)  # half a second's posts, as a batch takes them
        for batch in range(parameters["batches"]):
            piece = posts.table.slice(batch * size % len(posts), size)
            start = time.perf_counter()
            hits = matcher.match(receiver.receive(piece.column("text").combine_chunks()), no_positions(len(piece)))
            store.begin("s", batch, 1, 1)
            wanted = pa.table({"subscription": ids[hits.subscriptions], "post_row": hits.posts.astype(np.int64)})
            store.commit("s", batch, piece.set_column(0, "id", pa.array(np.arange(len(piece)) + batch * size)), wanted)
            taken.append(time.perf_counter() - start)
    return np.array(taken)
