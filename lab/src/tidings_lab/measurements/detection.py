"""Delay until an article is found over the number of requests: scheduler, fixed polling, oracle (Cobra)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tidings.crawl.schedule import SchedulePolicy
from tidings_lab.datasets import Posts
from tidings_lab.history import FeedHistory, load_history
from tidings_lab.polling import PollResult, Visits, adaptive_schedule, fixed_interval, oracle_visits, simulate_polling
from tidings_lab.runner import Parameters, Row


def steps(parameters: Parameters) -> int:
    return len(parameters["intervals_min"]) + len(parameters["worths_s"]) + 1


def data(parameters: Parameters, seed: int) -> dict[str, object]:
    return load_history(seed).to_dict()


def measure(posts: Posts, parameters: Parameters, seed: int) -> Iterator[tuple[str, list[Row]]]:
    """Yield a row per fixed interval, per `request_worth_s` of the scheduler, and one for the oracle."""
    history = load_history(seed)
    for minutes in parameters["intervals_min"]:
        yield f"every {minutes:g} minutes", [_row(history, "fixed", minutes, fixed_interval(60.0 * minutes))]
    for worth in parameters["worths_s"]:
        is_default = worth == SchedulePolicy().request_worth_s
        row = _row(history, "scheduler", worth, adaptive_schedule(SchedulePolicy(request_worth_s=worth)))
        yield f"a request is worth {worth:g} s", [{**row, "is_default": is_default}]
    yield "the oracle", [_row(history, "oracle", 0, oracle_visits)]


def _row(history: FeedHistory, policy: str, setting: float, visits: Visits) -> Row:
    polled: PollResult = simulate_polling(history, visits)
    days = sum(feed.days for feed in history.feeds)
    return {
        "policy": policy,
        "setting": setting,
        "requests_per_day": polled.visits / days,
        **_waits("article", polled.waits_s),
        **_waits("update", polled.update_waits_s),
        "articles": len(polled.waits_s),
        "updates": len(polled.update_waits_s),
    }


def _waits(of: str, seconds: NDArray[np.float64]) -> Row:
    """Return mean and percentiles in minutes."""
    percentiles = {f"{of}_p{p}_min": float(np.percentile(seconds, p)) / 60 for p in (50, 90)}
    return {f"{of}_wait_min": float(seconds.mean()) / 60, **percentiles}
