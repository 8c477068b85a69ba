"""What a plan is worth weeks after it was learned, while people talk and ask about other things (S³-TM 6.4)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.balance.word_registry import fit
from tidings.plan.words import WordPlan
from tidings_lab.datasets import Posts, weeks_of
from tidings_lab.runner import Parameters, Row
from tidings_lab.sample_queries import NumberedPosts
from tidings_lab.simulated_matchers import Fleet
from tidings_lab.workload import all_words, find_topics, numbered_posts, take_posts, topic_based


def steps(parameters: Parameters) -> int:
    return int(parameters["intervals"])


def measure(posts: Posts, parameters: Parameters, seed: int) -> Iterator[tuple[str, list[Row]]]:
    """Rows for every interval of weeks: plans learned in the first, and a `fresh` one, with topics of its own time."""
    some = np.arange(0, len(posts), parameters["every"])
    weeks = weeks_of(posts)[some]
    length = float(np.nextafter(weeks.max(), np.inf)) / parameters["intervals"]
    numbered = numbered_posts(posts.texts.take(pa.array(some)))
    matchers, old = parameters["matchers"], dict[tuple[str, int], WordPlan]()
    for interval in range(parameters["intervals"]):
        rows = np.flatnonzero((weeks / length).astype(int) == interval)
        found: list[Row] = []
        for repeat in range(parameters["folds_run"]):
            known, unseen = _halves(numbered, rows, parameters["tested"], seed + repeat)
            corpus = all_words(known)
            if interval == 0:
                old |= {(name, repeat): fit(name, corpus, matchers) for name in parameters["algorithms"]}
            topics = find_topics(known, parameters["topics"], parameters["iterations"], seed + repeat)
            subscribed = topic_based(topics, numbered.terms, parameters["subscriptions"], seed + repeat)
            plans = {name: old[name, repeat] for name in parameters["algorithms"]}
            plans["fresh"] = fit(parameters["fresh"], corpus, matchers)
            for name, plan in plans.items():
                fleet = Fleet(subscribed, plan, parameters["placement"], seed)
                work = fleet.work(subscribed.received(unseen), parameters["repetitions"])
                late = "first" if interval == 0 else "early" if interval <= parameters["intervals"] // 2 else "late"
                about = {"fold": repeat, "weeks": round(interval * length, 1), "period": late, "algorithm": name}
                found.append({**about, **work.described()})
        yield f"weeks {interval * length:.0f} to {(interval + 1) * length:.0f}", found


def _halves(
    numbered: NumberedPosts, rows: NDArray[np.intp], tested: int, seed: int
) -> tuple[NumberedPosts, NumberedPosts]:
    """Of the posts of an interval one half to learn from, some of the other to measure with."""
    order = np.random.default_rng([seed, 50]).permutation(rows)
    half = len(order) // 2
    return take_posts(numbered, np.sort(order[:half])), take_posts(numbered, np.sort(order[half : half + tested]))
