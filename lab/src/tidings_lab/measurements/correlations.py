"""Set correlations, section 8: all algorithms against k, P, thr and rate; quality over time; how tags are connected.

Real posts are replayed at a rate. This data has some thousand posts a week, the paper's 1,300 tweets a second, of which
few have tags (700,000 distinct ones a day of 15 million, section 5.1). So posts are taken in their order at the rate
times that share: windows of the paper's minutes then hold as many tagged posts as there, and all of them six hours.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from tidings.correlate.audit import audit, centralised
from tidings.correlate.partition.disjoint_sets import components
from tidings.correlate.partition.plan import TagPlan, gini
from tidings.correlate.partition.registry import ALGORITHMS, learn
from tidings.correlate.partition.tagsets import TagSets
from tidings.correlate.posts import TaggedPosts
from tidings.correlate.reference_topology import Correlated, correlate
from tidings.correlate.settings import Settings
from tidings_lab.datasets import Posts
from tidings_lab.tagged_posts import load_tagged, replayed

Row = dict[str, Any]
Parameters = Mapping[str, Any]
_STEPS = 500  # of an iteration that comes nearer with each
_ENDS = ("ds", "scl")  # of the frontier that ds+scl lies on
_VARIED = ("partitions", "partitioners", "threshold", "rate")


def steps(parameters: Parameters) -> int:
    points = sum(len(parameters[f"{name}_tried"]) for name in _VARIED)
    plain = len(parameters["algorithms"]) * (points + 1) + len(parameters["windows_min"])
    return int(plain + len(parameters["evenness_tried"]) + len(_ENDS))


def data(parameters: Parameters, seed: int) -> dict[str, object]:
    posts = load_tagged(parameters["tagged"], seed)
    return {"posts": len(posts), "source": posts.source, "note": ""}


def measure(posts: Posts, parameters: Parameters, seed: int) -> Iterator[tuple[str, list[Row]]]:
    """A row for each algorithm and choice, one for each look at the quality over time, one for each window."""
    tagged = load_tagged(parameters["tagged"], seed).parsed()
    base = {name: parameters[name] for name in _VARIED}
    for name in _VARIED:
        for value in parameters[f"{name}_tried"]:
            chosen = {**base, name: value}
            some = replayed(tagged, chosen["rate"] * parameters["tagged_share"])
            exact = centralised(some, _settings(parameters, chosen, "ds", seed), 4)
            for algorithm in parameters["algorithms"]:
                found = correlate(some, _settings(parameters, chosen, algorithm, seed))
                result = audit(found.reports, exact)
                row = {"kind": "choice", "varied": name, "algorithm": algorithm, **chosen, **_costs(found)}
                yield (
                    f"{algorithm}, {name} {value}",
                    [{**row, "coverage": result.coverage, "error": result.mean_error}],
                )
    rate = base["rate"] * parameters["tagged_share"]
    some = replayed(tagged, rate)
    for algorithm in parameters["algorithms"]:
        found = correlate(some, _settings(parameters, base, algorithm, seed))
        yield f"{algorithm} over time", list(_over_time(found, algorithm))
    yield from _frontier(some, parameters, base, seed)
    for minutes in parameters["windows_min"]:
        yield f"windows of {minutes} minutes", list(_windows(some, minutes, rate, base["partitions"], seed))


def _settings(parameters: Parameters, chosen: Mapping[str, Any], algorithm: str, seed: int) -> Settings:
    return Settings.checked(
        f"{parameters['report_s']} s",
        partitions=chosen["partitions"],
        partitioners=chosen["partitioners"],
        threshold=chosen["threshold"],
        algorithm=algorithm,
        catch_up=parameters["catch_up"],
        seed=seed,
    )


def _costs(found: Correlated) -> Row:
    told = found.dissemination.disseminator
    sent = told.sent[: found.dissemination.partitions]
    reasons = [one.reason for one in found.dissemination.repartitions]
    return {
        "communication": int(sent.sum()) / max(1, told.notified),
        "gini": gini(sent),
        "max_load": int(sent.max()) / max(1, int(sent.sum())),
        "repartitions": len(reasons),
        "for_communication": sum("communication" in reason for reason in reasons),
        "for_load": sum("load" in reason for reason in reasons),
        "additions": told.additions,
    }


def _frontier(
    posts: TaggedPosts, parameters: Parameters, chosen: Mapping[str, Any], seed: int
) -> Iterator[tuple[str, list[Row]]]:
    """What evener loads cost in communication: DS+SCL with other weights of lying above the average; DS and SCL."""
    for algorithm in _ENDS:
        found = correlate(posts, _settings(parameters, chosen, algorithm, seed))
        yield f"{algorithm} alone", [{"kind": "frontier", "series": algorithm, **_costs(found)}]
    settings = _settings(parameters, chosen, "ds+scl", seed)
    for evenness in parameters["evenness_tried"]:
        make = partial(_plan, settings=settings, evenness=evenness)
        row = {"kind": "frontier", "series": "ds+scl", "evenness": evenness, **_costs(correlate(posts, settings, make))}
        yield f"ds+scl, evenness {evenness:g}", [row]


def _plan(sample: TagSets, partitions: int, settings: Settings, evenness: float) -> TagPlan:
    return learn(sample, partitions, settings.algorithm, settings.partitioners, settings.seed, evenness)


def _over_time(found: Correlated, algorithm: str) -> Iterator[Row]:
    """Communication and the sorted loads at every look, and whether the partitions were made anew after it."""
    renewed = {one.post for one in found.dissemination.repartitions}
    for look in found.dissemination.looks:
        loads = np.sort(look.quality.loads)[::-1] / look.quality.loads.sum()
        row = {"kind": "time", "algorithm": algorithm, "second": look.at_us / 1e6, "post": look.post}
        row |= {"communication": look.quality.communication, "renewed": int(look.post in renewed)}
        yield {**row, "max_load": float(loads[0]), "loads": loads.round(4).tolist()}


def _windows(posts: TaggedPosts, minutes: float, rate: float, partitions: int, seed: int) -> Iterator[Row]:
    """Figure 7, sections 5.1 and 5.2: what theory expects of each window, beside what was measured."""
    size = round(minutes * 60 * rate)
    for window, first in enumerate(range(0, len(posts) - size + 1, size)):
        sets, _ = posts.sets(first, first + size).numbered()
        about = {"minutes": minutes, "window": window, "posts": size}
        for row in (*_connectivity(sets), *_communication(sets, partitions, seed)):
            yield {**row, **about}


def _connectivity(sets: TagSets) -> Iterator[Row]:
    """The largest connected set of tags, and how large it would be if tags met by chance."""
    of_tag, _, loads = components(sets)
    lengths = np.diff(sets.starts).astype(np.int64)
    tags = len(of_tag)
    pairs = {
        "expected, every tag set new pairs": int((lengths * (lengths - 1) // 2).sum()),
        "expected, pairs as counted": _pairs(sets.tags, lengths),
    }
    for series, edges in pairs.items():
        degree = mean_degree(edges, tags)
        yield {"kind": "connected", "series": series, "np": degree, "largest_tags": giant(degree)}
    yield {
        "kind": "connected",
        "series": "measured",
        "components": len(loads),
        "largest_tags": int(np.bincount(of_tag).max()) / tags,
        "largest_load": int(loads.max()) / int(loads.sum()),
    }


def _communication(sets: TagSets, partitions: int, seed: int) -> Iterator[Row]:
    """What the formula says of partitions drawn at random, and what partitions learned from this window cost on it."""
    mean = float(np.average(np.diff(sets.starts).astype(np.int64), weights=sets.weights))
    expected = expected_communication(sets.tag_count, len(sets), partitions, round(mean))
    yield {"kind": "expected", "series": "expected at random", "communication": expected}
    for algorithm in ALGORITHMS:
        measured = learn(sets, partitions, algorithm, seed=seed).measured(sets)
        yield {"kind": "expected", "series": algorithm, "communication": measured.communication, "gini": measured.gini}


def _pairs(tags: np.ndarray[Any, Any], lengths: np.ndarray[Any, Any]) -> int:
    """Different pairs of tags that occur together."""
    found: set[tuple[int, int]] = set()
    at = 0
    for length in lengths.tolist():
        row = tags[at : at + length].tolist()
        found.update((one, other) for place, one in enumerate(row) for other in row[place + 1 :])
        at += length
    return len(found)


def mean_degree(edges: int, tags: int) -> float:
    """n·p of the random graph with so many edges: M = n (n − 1) / 2 · p."""
    return 2 * edges / max(1, tags - 1)


def giant(degree: float) -> float:
    """The share of the nodes of a random graph in its largest component (Erdős and Rényi): s = 1 − exp(−np · s)."""
    share = 1.0
    for _ in range(_STEPS):
        share = 1 - math.exp(-degree * share)
    return share


def expected_communication(tags: int, posts: int, partitions: int, tags_a_post: int) -> float:
    """Section 5.2: k · (1 − [C(v − m, m) / C(v, m)]^(n / k)), for partitions of posts drawn at random."""
    apart = math.comb(max(0, tags - tags_a_post), tags_a_post) / math.comb(tags, tags_a_post)
    return partitions * (1 - math.pow(apart, posts / partitions))
