"""Set correlations, section 8: all algorithms against k, P, thr and rate; quality over time; how tags are connected.

Real posts are replayed at a rate. This data has some thousand posts a week, the paper's 1,300 tweets a second, so the
replay takes the posts in their order at that rate: windows of the paper's minutes then hold as many posts as there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tidings.correlate.audit import audit, centralised
from tidings.correlate.posts import TaggedPosts
from tidings.correlate.run import Correlated, correlate
from tidings.correlate.settings import Settings
from tidings.lab.datasets import Posts
from tidings.lab.tagged import load_tagged
from tidings.partition.tags.disjoint import components
from tidings.partition.tags.plan import gini

Row = dict[str, Any]
Parameters = Mapping[str, Any]
_VARIED = ("partitions", "partitioners", "threshold", "rate")


def steps(parameters: Parameters) -> int:
    points = sum(len(parameters[f"{name}_tried"]) for name in _VARIED)
    return int(len(parameters["algorithms"]) * (points + 1) + len(parameters["windows_min"]))


def measure(posts: Posts, parameters: Parameters, seed: int) -> Iterator[tuple[str, list[Row]]]:
    """A row for each algorithm and choice, one for each look at the quality over time, one for each window."""
    tagged = load_tagged(parameters["tagged"], seed)
    base = {name: parameters[name] for name in _VARIED}
    for name in _VARIED:
        for value in parameters[f"{name}_tried"]:
            chosen = {**base, name: value}
            replayed = tagged.at_rate(chosen["rate"]).parsed()
            exact = centralised(replayed, _settings(parameters, chosen, "ds", seed), 4)
            for algorithm in parameters["algorithms"]:
                found = correlate(replayed, _settings(parameters, chosen, algorithm, seed))
                result = audit(found.reports, exact)
                row = {"kind": "choice", "varied": name, "algorithm": algorithm, **chosen, **_costs(found)}
                yield (
                    f"{algorithm}, {name} {value}",
                    [{**row, "coverage": result.coverage, "error": result.mean_error}],
                )
    replayed = tagged.at_rate(base["rate"]).parsed()
    for algorithm in parameters["algorithms"]:
        found = correlate(replayed, _settings(parameters, base, algorithm, seed))
        yield f"{algorithm} over time", list(_over_time(found, algorithm))
    for minutes in parameters["windows_min"]:
        yield f"windows of {minutes} minutes", list(_connectivity(replayed, minutes, base))


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


def _over_time(found: Correlated, algorithm: str) -> Iterator[Row]:
    """Communication and the sorted loads at every look, and whether the partitions were made anew after it."""
    renewed = {one.post for one in found.dissemination.repartitions}
    for look in found.dissemination.looks:
        loads = np.sort(look.quality.loads)[::-1] / look.quality.loads.sum()
        row = {"kind": "time", "algorithm": algorithm, "second": look.at_us / 1e6, "post": look.post}
        row |= {"communication": look.quality.communication, "renewed": int(look.post in renewed)}
        yield {**row, "max_load": float(loads[0]), "loads": loads.round(4).tolist()}


def _connectivity(posts: TaggedPosts, minutes: float, base: Mapping[str, Any]) -> Iterator[Row]:
    """Figure 7, sections 5.1 and 5.2: the largest connected sets, np modelled and counted, expected communication."""
    size = round(minutes * 60 * base["rate"])
    for first in range(0, len(posts) - size + 1, size):
        sets, names = posts.sets(first, first + size).numbered()
        of_tag, _, loads = components(sets)
        lengths = np.diff(sets.starts).astype(np.int64)
        pairs = _pairs(sets.tags, lengths)
        tags, mean = len(names), float(np.average(lengths, weights=sets.weights))
        yield {
            "kind": "window",
            "minutes": minutes,
            "window": first // size,
            "posts": size,
            "tags": tags,
            "components": len(loads),
            "largest_tags": int(np.bincount(of_tag).max()) / tags,
            "largest_load": int(loads.max()) / size,
            "np_model": _np(int((lengths * (lengths - 1) // 2).sum()), tags),
            "np_counted": _np(pairs, tags),
            "expected_communication": expected_communication(tags, len(sets), base["partitions"], round(mean)),
        }


def _pairs(tags: np.ndarray[Any, Any], lengths: np.ndarray[Any, Any]) -> int:
    """Different pairs of tags that occur together."""
    found: set[tuple[int, int]] = set()
    at = 0
    for length in lengths.tolist():
        row = tags[at : at + length].tolist()
        found.update((one, other) for place, one in enumerate(row) for other in row[place + 1 :])
        at += length
    return len(found)


def _np(edges: int, tags: int) -> float:
    """n·p of the random graph with so many edges: M = n (n − 1) / 2 · p."""
    return 2 * edges / max(1, tags - 1)


def expected_communication(tags: int, posts: int, partitions: int, tags_a_post: int) -> float:
    """Section 5.2: k · (1 − [C(v − m, m) / C(v, m)]^(n / k)), for partitions of posts drawn at random."""
    apart = math.comb(max(0, tags - tags_a_post), tags_a_post) / math.comb(tags, tags_a_post)
    return partitions * (1 - math.pow(apart, posts / partitions))
