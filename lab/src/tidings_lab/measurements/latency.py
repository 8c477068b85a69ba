"""Latency from publication of an article to its reader: crawling, network, matching, polling (Cobra: total latency)."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.crawl.schedule import SchedulePolicy
from tidings.index.builder import create_index
from tidings.matching.segment_matcher import SegmentMatcher, missing_positions
from tidings.store import open_store
from tidings_lab.datasets import Posts, sample_texts
from tidings_lab.history import load_history
from tidings_lab.network_model import CITIES, NetworkModel, city_rtt_ms
from tidings_lab.polling import adaptive_schedule, fixed_interval, simulate_polling
from tidings_lab.runner import Parameters, Row
from tidings_lab.sample_queries import draw_queries

_PARTS = ("crawl", "network", "match", "poll")


def steps(parameters: Parameters) -> int:
    return len(parameters["crawling"]) * len(parameters["reading"]) + 1


def data(parameters: Parameters, seed: int) -> dict[str, object]:
    return load_history(seed).to_dict()


def measure(posts: Posts, parameters: Parameters, seed: int) -> Iterator[tuple[str, list[Row]]]:
    """Yield a row per crawl policy, way of reading and part of the latency: percentiles and share of the total."""
    history = load_history(seed)
    rng = np.random.default_rng([seed, 80])
    match_s = (
        _stream_latencies_s(posts, parameters, seed)
        if parameters["spark"]
        else _local_latencies_s(posts, parameters, seed)
    )
    yield (
        "matching",
        [{"part": "match", "kind": "measured", "p50_s": float(np.median(match_s)), "spark": parameters["spark"]}],
    )
    for crawling in parameters["crawling"]:
        visits = (
            adaptive_schedule(SchedulePolicy())
            if crawling == "scheduler"
            else fixed_interval(60.0 * parameters["crawl_min"])
        )
        waits = simulate_polling(history, visits).waits_s
        network = _network_latencies_s(len(waits), history.document_bytes(), seed)
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


def _network_latencies_s(articles: int, sizes: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    """Time to fetch from the nearest of four crawlers, half a round trip to the filter, and a hop to the reflector."""
    sites = ["Boston", "London", "Tokyo", "San Jose"]
    network = NetworkModel.generate(articles, sites, sizes, seed)
    nearest = network.rtt_ms.argmin(axis=1)
    rng = np.random.default_rng([seed, 81])
    inside = city_rtt_ms(sites, [next(iter(CITIES))], rng)[nearest, 0]  # filter and reflector share a data centre
    seconds: NDArray[np.float64] = (network.fetch_ms(nearest) + inside / 2 + rng.gamma(2.0, 0.1, articles)) / 1000
    return seconds


def _stream_latencies_s(posts: Posts, parameters: Parameters, seed: int) -> NDArray[np.float64]:
    """Time from an input file to its stored matches in a stream on Spark, drawn from its percentiles."""
    import tidings
    from tidings_lab.bench_stream import QUERY_TERMS, measure_latency

    rng = np.random.default_rng([seed, 82])
    queries = draw_queries(sample_texts(posts, rng), parameters["subscriptions"], rng, *QUERY_TERMS).to_pylist()
    with tempfile.TemporaryDirectory(prefix="tidings-lab-") as name:
        for turn, seconds in (("cold", parameters["warmup_s"]), ("warm", parameters["seconds"])):
            latency = measure_latency(Path(name) / turn, posts, queries, parameters["rate"], seconds, lambda _: None)
    tidings.session().stop()
    percentiles = [latency[f"p{p}_ms"] / 1000 for p in (50, 50, 95, 99)]
    drawn: NDArray[np.float64] = np.interp(rng.uniform(0, 99, 1_000), (0, 50, 95, 99), percentiles)
    return drawn


def _local_latencies_s(posts: Posts, parameters: Parameters, seed: int) -> NDArray[np.float64]:
    """The same without Spark: analyze, match and store some batches in this process."""
    rng = np.random.default_rng([seed, 82])
    queries = draw_queries(sample_texts(posts, rng), parameters["subscriptions"], rng)
    ids, taken = np.arange(1, len(queries) + 1), []
    with tempfile.TemporaryDirectory(prefix="tidings-lab-") as name, open_store(Path(name) / "state") as store:
        store.subscriptions.add_many([(query,) for query in queries.to_pylist()])
        index, _ = create_index(Path(name) / "index", pa.table({"id": ids, "query": queries}))
        receiver, matcher = index.analyzer(), SegmentMatcher(index.open_shard(0)[0].segment, index.manifest.terms)
        size = max(1, parameters["rate"] // 2)  # posts of half a second, like a batch
        for batch in range(parameters["batches"]):
            piece = posts.table.slice(batch * size % len(posts), size)
            start = time.perf_counter()
            hits = matcher.match(receiver.analyze(piece.column("text").combine_chunks()), missing_positions(len(piece)))
            store.batches.begin("s", batch, 1, 1)
            matches = pa.table({"subscription": ids[hits.subscriptions], "post_row": hits.posts.astype(np.int64)})
            store.batches.commit(
                "s", batch, piece.set_column(0, "id", pa.array(np.arange(len(piece)) + batch * size)), matches
            )
            taken.append(time.perf_counter() - start)
    return np.array(taken)
