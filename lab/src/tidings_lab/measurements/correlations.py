"""Set correlations, section 8: all algorithms over k, P, thr and rate; quality over time; connectivity of tags.

Real posts are replayed at a constant rate. This data has some thousand posts per week, the paper 1,300 tweets per
second, of which few have tags (700,000 distinct ones of 15 million per day, section 5.1). Posts are replayed in their
order at the rate times that share: windows of the paper's minutes then hold the same number of tagged posts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from tidings.correlate.audit import audit, compute_exact
from tidings.correlate.partition.disjoint_sets import find_components
from tidings.correlate.partition.plan import TagPlan, compute_gini
from tidings.correlate.partition.registry import ALGORITHMS, learn_tag_plan
from tidings.correlate.partition.tagsets import TagSets
from tidings.correlate.posts import TaggedPosts
from tidings.correlate.reference_topology import CorrelationResult, correlate
from tidings.correlate.settings import CorrelationSettings
from tidings_lab.datasets import Posts
from tidings_lab.tagged_posts import load_tagged, replay

Row = dict[str, Any]
Parameters = Mapping[str, Any]
_STEPS = 500  # of the fixed-point iteration
_ENDS = ("ds", "scl")  # ends of the frontier on which ds+scl lies
_VARIED = ("partitions", "partitioners", "threshold", "rate")


def steps(parameters: Parameters) -> int:
    points = sum(len(parameters[f"{name}_tried"]) for name in _VARIED)
    plain = len(parameters["algorithms"]) * (points + 1) + len(parameters["windows_min"])
    return int(plain + len(parameters["evenness_tried"]) + len(_ENDS))


def data(parameters: Parameters, seed: int) -> dict[str, object]:
    posts = load_tagged(parameters["tagged"], seed)
    return {"posts": len(posts), "source": posts.source, "note": ""}


def measure(posts: Posts, parameters: Parameters, seed: int) -> Iterator[tuple[str, list[Row]]]:
    """Yield a row per algorithm and parameter value, per evaluation over time, and per window."""
    tagged = load_tagged(parameters["tagged"], seed).parse()
    base = {name: parameters[name] for name in _VARIED}
    for name in _VARIED:
        for value in parameters[f"{name}_tried"]:
            chosen = {**base, name: value}
            replayed = replay(tagged, chosen["rate"] * parameters["tagged_share"])
            exact = compute_exact(replayed, _settings(parameters, chosen, "ds", seed), 4)
            for algorithm in parameters["algorithms"]:
                found = correlate(replayed, _settings(parameters, chosen, algorithm, seed))
                result = audit(found.reports, exact)
                row = {"kind": "choice", "varied": name, "algorithm": algorithm, **chosen, **_costs(found)}
                yield (
                    f"{algorithm}, {name} {value}",
                    [{**row, "coverage": result.coverage, "error": result.mean_error}],
                )
    rate = base["rate"] * parameters["tagged_share"]
    replayed = replay(tagged, rate)
    for algorithm in parameters["algorithms"]:
        found = correlate(replayed, _settings(parameters, base, algorithm, seed))
        yield f"{algorithm} over time", list(_over_time(found, algorithm))
    yield from _frontier(replayed, parameters, base, seed)
    for minutes in parameters["windows_min"]:
        yield f"windows of {minutes} minutes", list(_windows(replayed, minutes, rate, base["partitions"], seed))


def _settings(parameters: Parameters, chosen: Mapping[str, Any], algorithm: str, seed: int) -> CorrelationSettings:
    return CorrelationSettings.parse(
        f"{parameters['report_s']} s",
        partitions=chosen["partitions"],
        partitioners=chosen["partitioners"],
        threshold=chosen["threshold"],
        algorithm=algorithm,
        catch_up=parameters["catch_up"],
        seed=seed,
    )


def _costs(found: CorrelationResult) -> Row:
    router = found.pipeline.router
    sent = router.sent[: found.pipeline.partitions]
    reasons = [repartition.reason for repartition in found.pipeline.repartitions]
    return {
        "communication": int(sent.sum()) / max(1, router.notified),
        "gini": compute_gini(sent),
        "max_load": int(sent.max()) / max(1, int(sent.sum())),
        "repartitions": len(reasons),
        "for_communication": sum("communication" in reason for reason in reasons),
        "for_load": sum("load" in reason for reason in reasons),
        "additions": router.additions,
    }


def _frontier(
    posts: TaggedPosts, parameters: Parameters, chosen: Mapping[str, Any], seed: int
) -> Iterator[tuple[str, list[Row]]]:
    """Communication over evenness of loads: DS+SCL with several weights of `evenness`, and DS and SCL."""
    for algorithm in _ENDS:
        found = correlate(posts, _settings(parameters, chosen, algorithm, seed))
        yield f"{algorithm} alone", [{"kind": "frontier", "series": algorithm, **_costs(found)}]
    settings = _settings(parameters, chosen, "ds+scl", seed)
    for evenness in parameters["evenness_tried"]:
        make = partial(_plan, settings=settings, evenness=evenness)
        row = {"kind": "frontier", "series": "ds+scl", "evenness": evenness, **_costs(correlate(posts, settings, make))}
        yield f"ds+scl, evenness {evenness:g}", [row]


def _plan(sample: TagSets, partitions: int, settings: CorrelationSettings, evenness: float) -> TagPlan:
    return learn_tag_plan(sample, partitions, settings.algorithm, settings.partitioners, settings.seed, evenness)


def _over_time(found: CorrelationResult, algorithm: str) -> Iterator[Row]:
    """Yield communication and sorted loads at every evaluation, and whether a repartition followed."""
    repartitioned = {repartition.post for repartition in found.pipeline.repartitions}
    for look in found.pipeline.quality_checks:
        loads = np.sort(look.quality.loads)[::-1] / look.quality.loads.sum()
        row = {"kind": "time", "algorithm": algorithm, "second": look.at_us / 1e6, "post": look.post}
        row |= {"communication": look.quality.communication, "repartitioned": int(look.post in repartitioned)}
        yield {**row, "max_load": float(loads[0]), "loads": loads.round(4).tolist()}


def _windows(posts: TaggedPosts, minutes: float, rate: float, partitions: int, seed: int) -> Iterator[Row]:
    """Figure 7, sections 5.1 and 5.2: expected and measured values per window."""
    size = round(minutes * 60 * rate)
    for window, first in enumerate(range(0, len(posts) - size + 1, size)):
        sets, _ = posts.distinct_tag_sets(first, first + size).renumber()
        about = {"minutes": minutes, "window": window, "posts": size}
        for row in (*_connectivity(sets), *_communication(sets, partitions, seed)):
            yield {**row, **about}


def _connectivity(sets: TagSets) -> Iterator[Row]:
    """Yield the size of the largest connected set of tags, measured and expected for random tags."""
    of_tag, _, loads = find_components(sets)
    lengths = np.diff(sets.starts).astype(np.int64)
    tags = len(of_tag)
    pairs = {
        "expected, every tag set new pairs": int((lengths * (lengths - 1) // 2).sum()),
        "expected, pairs as counted": _count_pairs(sets.tags, lengths),
    }
    for series, edges in pairs.items():
        degree = mean_degree(edges, tags)
        yield {"kind": "connected", "series": series, "np": degree, "largest_tags": giant_component_share(degree)}
    yield {
        "kind": "connected",
        "series": "measured",
        "components": len(loads),
        "largest_tags": int(np.bincount(of_tag).max()) / tags,
        "largest_load": int(loads.max()) / int(loads.sum()),
    }


def _communication(sets: TagSets, partitions: int, seed: int) -> Iterator[Row]:
    """Yield the expected communication of random partitions, and that of partitions learned from this window."""
    mean = float(np.average(np.diff(sets.starts).astype(np.int64), weights=sets.weights))
    expected = expected_communication(sets.tag_count, len(sets), partitions, round(mean))
    yield {"kind": "expected", "series": "expected at random", "communication": expected}
    for algorithm in ALGORITHMS:
        measured = learn_tag_plan(sets, partitions, algorithm, seed=seed).measure(sets)
        yield {"kind": "expected", "series": algorithm, "communication": measured.communication, "gini": measured.gini}


def _count_pairs(tags: np.ndarray[Any, Any], lengths: np.ndarray[Any, Any]) -> int:
    """Return the number of distinct pairs of tags that occur together."""
    pairs: set[tuple[int, int]] = set()
    at = 0
    for length in lengths.tolist():
        row = tags[at : at + length].tolist()
        pairs.update((tag, other) for place, tag in enumerate(row) for other in row[place + 1 :])
        at += length
    return len(pairs)


def mean_degree(edges: int, tags: int) -> float:
    """Return n·p of a random graph with this number of edges: M = n (n − 1) / 2 · p."""
    return 2 * edges / max(1, tags - 1)


def giant_component_share(degree: float) -> float:
    """Return the share of nodes in the largest component of a random graph (Erdős and Rényi): s = 1 − exp(−np · s)."""
    share = 1.0
    for _ in range(_STEPS):
        share = 1 - math.exp(-degree * share)
    return share


def expected_communication(tags: int, posts: int, partitions: int, tags_per_post: int) -> float:
    """Return the formula of section 5.2 for random partitions: k · (1 − [C(v − m, m) / C(v, m)]^(n / k))."""
    apart = math.comb(max(0, tags - tags_per_post), tags_per_post) / math.comb(tags, tags_per_post)
    return partitions * (1 - math.pow(apart, posts / partitions))
