"""Crawl time with feeds given to near crawlers, and given to any (the talk: 18 % less in the median)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import ceil

import numpy as np

from tidings.crawl.locality import assign
from tidings_lab.datasets import Posts
from tidings_lab.history import load_history
from tidings_lab.network_model import World
from tidings_lab.runner import Parameters, Row


def steps(parameters: Parameters) -> int:
    return int(parameters["repetitions"] * len(parameters["crawlers"]) * len(parameters["layouts"]))


def data(parameters: Parameters, seed: int) -> dict[str, object]:
    return load_history(seed).described()


def measure(posts: Posts, parameters: Parameters, seed: int) -> Iterator[tuple[str, list[Row]]]:
    """A row for each number of crawlers and way to give feeds out: percentiles of the time to fetch a feed."""
    sizes = load_history(seed).document_bytes()
    choices = product(range(parameters["repetitions"]), parameters["layouts"], parameters["crawlers"])
    for repetition, layout, crawlers in choices:
        sites = parameters[layout][:crawlers]
        world = World.made(parameters["feeds"], sites, sizes, seed + repetition)
        about = {"repetition": repetition, "layout": layout, "crawlers": crawlers}
        yield f"{crawlers} crawlers, {layout}", [{**about, **row} for row in _rows(world, crawlers, parameters, seed)]


def _rows(world: World, crawlers: int, parameters: Parameters, seed: int) -> Iterator[Row]:
    feeds = len(world.rtt_ms)
    rng = np.random.default_rng([seed, 62])
    at_random = world.fetch_ms(rng.permutation(np.arange(feeds) % crawlers))
    for slack in parameters["slack"]:
        room = [ceil(feeds / crawlers * (1 + slack))] * crawlers
        estimated = assign(world.estimated_ms(parameters["estimate_error"], seed), room)
        ways = {
            "random": at_random,
            "near": world.fetch_ms(estimated),
            "near, exact": world.fetch_ms(assign(world.rtt_ms, room)),
        }
        for way, taken in ways.items():
            middle = {f"p{p}_ms": float(np.percentile(taken, p)) for p in (10, 50, 90)}
            less = 1 - float(np.median(taken) / np.median(at_random))
            whole = 1 - float(taken.sum() / at_random.sum())
            yield {
                "slack": slack,
                "way": way,
                **middle,
                "mean_ms": float(taken.mean()),
                "less": less,
                "less_in_all": whole,
            }
