"""How long it takes to notice an article against requests spent: the scheduler, fixed polling, an oracle."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tidings.crawl.schedule import Pace
from tidings_lab.datasets import Posts
from tidings_lab.history import History, load_history
from tidings_lab.polling import Polled, Visits, clairvoyant, every, poll, scheduled
from tidings_lab.runner import Parameters, Row


def steps(parameters: Parameters) -> int:
    return len(parameters["intervals_min"]) + len(parameters["worths_s"]) + 1


def data(parameters: Parameters, seed: int) -> dict[str, object]:
    return load_history(seed).described()


def measure(posts: Posts, parameters: Parameters, seed: int) -> Iterator[tuple[str, list[Row]]]:
    """A row for each interval, each worth of a request to the scheduler, and for who knows the future."""
    history = load_history(seed)
    for minutes in parameters["intervals_min"]:
        yield f"every {minutes:g} minutes", [_row(history, "fixed", minutes, every(60.0 * minutes))]
    for worth in parameters["worths_s"]:
        is_default = worth == Pace().worth_s
        row = _row(history, "scheduler", worth, scheduled(Pace(worth_s=worth)))
        yield f"a request is worth {worth:g} s", [{**row, "is_default": is_default}]
    yield "the oracle", [_row(history, "oracle", 0, clairvoyant)]


def _row(history: History, policy: str, setting: float, visits: Visits) -> Row:
    found: Polled = poll(history, visits)
    days = sum(feed.days for feed in history.feeds)
    return {
        "policy": policy,
        "setting": setting,
        "requests_a_day": found.visits / days,
        **_waits("article", found.waits_s),
        **_waits("update", found.update_waits_s),
        "articles": len(found.waits_s),
        "updates": len(found.update_waits_s),
    }


def _waits(of: str, seconds: NDArray[np.float64]) -> Row:
    """Minutes: the mean, and percentiles."""
    told = {f"{of}_p{p}_min": float(np.percentile(seconds, p)) / 60 for p in (50, 90)}
    return {f"{of}_wait_min": float(seconds.mean()) / 60, **told}
