"""Crawl time with feeds assigned to near crawlers and at random (Cobra: 18 % less in the median)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import ceil

import numpy as np

from tidings.crawl.locality import assign_min_latency
from tidings_lab.datasets import Posts
from tidings_lab.history import load_history
from tidings_lab.network_model import NetworkModel
from tidings_lab.runner import Parameters, Row


def steps(parameters: Parameters) -> int:
    return int(parameters["repetitions"] * len(parameters["crawlers"]) * len(parameters["layouts"]))


def data(parameters: Parameters, seed: int) -> dict[str, object]:
    return load_history(seed).to_dict()


def measure(posts: Posts, parameters: Parameters, seed: int) -> Iterator[tuple[str, list[Row]]]:
    """Yield a row per number of crawlers and assignment of feeds: percentiles of the time to fetch a feed."""
    sizes = load_history(seed).document_bytes()
    choices = product(range(parameters["repetitions"]), parameters["layouts"], parameters["crawlers"])
    for repetition, layout, crawlers in choices:
        sites = parameters[layout][:crawlers]
        network = NetworkModel.generate(parameters["feeds"], sites, sizes, seed + repetition)
        about = {"repetition": repetition, "layout": layout, "crawlers": crawlers}
        yield f"{crawlers} crawlers, {layout}", [{**about, **row} for row in _rows(network, crawlers, parameters, seed)]


def _rows(network: NetworkModel, crawlers: int, parameters: Parameters, seed: int) -> Iterator[Row]:
    feeds = len(network.rtt_ms)
    rng = np.random.default_rng([seed, 62])
    at_random = network.fetch_ms(rng.permutation(np.arange(feeds) % crawlers))
    for slack in parameters["slack"]:
        capacity = [ceil(feeds / crawlers * (1 + slack))] * crawlers
        estimated = assign_min_latency(network.estimated_ms(parameters["estimate_error"], seed), capacity)
        assignments = {
            "random": at_random,
            "near": network.fetch_ms(estimated),
            "near, exact": network.fetch_ms(assign_min_latency(network.rtt_ms, capacity)),
        }
        for assignment, taken in assignments.items():
            percentiles = {f"p{p}_ms": float(np.percentile(taken, p)) for p in (10, 50, 90)}
            reduction = 1 - float(np.median(taken) / np.median(at_random))
            total_reduction = 1 - float(taken.sum() / at_random.sum())
            yield {
                "slack": slack,
                "assignment": assignment,
                **percentiles,
                "mean_ms": float(taken.mean()),
                "reduction": reduction,
                "total_reduction": total_reduction,
            }
