"""Intervals between visits, and months of visits simulated with a fake clock."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

import numpy as np
import pytest

from tidings.crawl.article import Article, ParsedFeed
from tidings.crawl.decide import (
    FeedVisit,
    VisitMemory,
    conditional_headers,
    decide_failed,
    decide_read,
    decide_unchanged,
    is_unchanged,
)
from tidings.crawl.fetch import FeedResponse
from tidings.crawl.identity import unpack_known
from tidings.crawl.lanes import VisitCost
from tidings.crawl.rate_limit import HostRateLimit, HostRateLimits, VisitLimits
from tidings.crawl.schedule import (
    DAY_S,
    SchedulePolicy,
    UpdateHistory,
    add_jitter,
    estimate_history,
    failure_interval_s,
    freshness_s,
    interval_s,
    update_history,
)
from tidings.store import DueFeed

POLICY = SchedulePolicy(request_worth_s=112)  # with an article an hour: every 15 minutes
HOUR_S, BEGIN = 3_600.0, 1_790_000_000.0


def steady(per_day: float) -> UpdateHistory:
    return UpdateHistory(articles=per_day * 1_000, over_s=1_000 * DAY_S, updates=per_day * 1_000)


def test_interval_has_minimal_cost():
    for per_day in (1, 7, 40):
        rate = steady(per_day).rate
        cost = {every: POLICY.request_worth_s / every + rate * every / 2 for every in np.arange(300, 86_400, 10.0)}
        assert interval_s(steady(per_day), POLICY) == pytest.approx(min(cost, key=cost.get), abs=10)
    assert interval_s(steady(24), POLICY) == pytest.approx(900, rel=0.01)
    assert interval_s(steady(0.24), POLICY) == pytest.approx(9_000, rel=0.01)


def test_interval_stays_within_its_limits():
    assert interval_s(steady(1e6), POLICY) == POLICY.min_interval_s
    assert interval_s(steady(0), POLICY) == POLICY.max_interval_s


def test_requested_interval_is_honoured_up_to_the_limit():
    assert interval_s(replace(steady(24), asked_for_s=7_200.0), POLICY) == 7_200
    assert interval_s(replace(steady(24), asked_for_s=1e9), POLICY) == POLICY.max_interval_s


def test_short_document_is_visited_before_articles_drop_out():
    assert interval_s(replace(steady(96), window=2), POLICY) == pytest.approx(450, rel=0.01)
    assert interval_s(steady(1), POLICY, has_gap=True) == POLICY.min_interval_s


def test_failures_double_the_interval_up_to_a_day():
    waits = [failure_interval_s(replace(steady(24), failures=n), POLICY) for n in range(1, 12)]
    assert waits[:4] == pytest.approx([900, 1_800, 3_600, 7_200], rel=0.01)
    assert waits[-1] == DAY_S


def test_rate_of_a_new_feed_is_estimated_from_dates():
    daily = estimate_history([BEGIN - n * DAY_S for n in range(1, 31)], BEGIN)
    assert daily.rate == pytest.approx(1 / DAY_S, rel=0.05)
    asleep = estimate_history([BEGIN - (300 + n) * DAY_S for n in range(9)], BEGIN)
    assert asleep.rate < 1 / (100 * DAY_S)
    assert estimate_history([None, None], BEGIN) == estimate_history([BEGIN + 9e6], BEGIN) == UpdateHistory()
    assert UpdateHistory().rate == pytest.approx(1 / DAY_S)


def test_interval_follows_a_change_of_the_rate_within_days():
    rhythm, intervals = UpdateHistory(), []
    for day in range(90):
        per_day = 48 if 30 <= day < 60 else 0
        for _ in range(24):
            rhythm = update_history(rhythm, per_day // 24, HOUR_S, POLICY)
        intervals.append(interval_s(rhythm, POLICY))
    assert intervals[29] > 4 * HOUR_S
    assert intervals[35] < HOUR_S
    assert intervals[59] < 1_200  # two articles an hour, looked for once an hour, are one update
    assert intervals[89] > 1_000


def test_feeds_added_together_do_not_stay_due_together():
    waits = {add_jitter(1_000.0, feed, 1) for feed in range(100)}
    assert len(waits) == 100
    assert 950 <= min(waits) < 960 < 1_040 < max(waits) <= 1_050
    assert add_jitter(1_000.0, 7, 3) == add_jitter(1_000.0, 7, 3)


@pytest.mark.parametrize(
    ("control", "expires", "fresh_s"),
    [
        ("max-age=60", "", 60),
        ('public, MAX-AGE="120", must-revalidate', "", 120),
        ("s-maxage=9", "", 0),
        ("no-cache, max-age=60", "", 0),
        ("", "Thu, 01 Jan 2026 13:00:00 GMT", 3_600),
        ("max-age=60", "Thu, 01 Jan 2026 13:00:00 GMT", 60),
        ("", "0", 0),
        ("", "Thu, 01 Jan 1970 00:00:00 GMT", 0),
        ("max-age=-1", "", 0),
    ],
)
def test_freshness_comes_from_cache_control_or_expires(control, expires, fresh_s):
    assert freshness_s(control, expires, "Thu, 01 Jan 2026 12:00:00 GMT") == fresh_s


def due(number: int, host: str) -> DueFeed:
    return DueFeed(number, f"https://{host}/{number}", 0.0, "{}")


LIMITS = VisitLimits(feeds=6, host_s=15.0)


def test_requests_to_a_host_are_limited_per_round():
    hosts = HostRateLimits(HostRateLimit(min_interval_s=5.0))
    waiting = [due(n, "big.example") for n in range(10)] + [due(n, f"{n}.example") for n in range(97, 100)]
    assert [one.id for one in hosts.select_visitable(waiting, BEGIN, LIMITS)] == [0, 1, 2, 3, 97, 98]
    hosts.record_request("https://big.example/x", BEGIN)
    assert [one.id for one in hosts.select_visitable(waiting, BEGIN + 4.9, LIMITS)] == [97, 98, 99]
    assert len(hosts.select_visitable(waiting, BEGIN + 5, LIMITS)) == 6


def test_host_that_another_round_visits_is_left_out():
    hosts = HostRateLimits()
    limits = replace(LIMITS, busy_hosts={"a.example"})
    assert hosts.select_visitable([due(2, "a.example"), due(3, "b.example")], BEGIN, limits) == [due(3, "b.example")]


def test_retry_after_applies_to_all_feeds_of_a_host():
    hosts = HostRateLimits()
    hosts.record_request("https://a.example/1", BEGIN, wait_s=600.0)
    hosts.record_request("https://a.example/2", BEGIN + 1)
    assert hosts.select_visitable([due(2, "a.example"), due(3, "b.example")], BEGIN + 599, LIMITS) == [
        due(3, "b.example")
    ]
    assert hosts.next_free_at([due(2, "a.example")]) == BEGIN + 600


class World:
    """A feed with articles at given times, visited with a fake clock."""

    def __init__(self, times, window=20):
        self.times, self.window = sorted(map(float, times)), window
        self.asked = FeedVisit(1, "https://a.example/f", VisitMemory())
        self.found, self.requests = {}, 0

    def visit(self, now):
        self.requests += 1
        count = int(np.searchsorted(self.times, now, "right"))
        shown = range(max(0, count - self.window), count)
        body = str(list(shown)).encode()
        etag = f'"{count}"'
        unchanged = conditional_headers(self.asked).get("If-None-Match") == etag
        told = FeedResponse(
            304 if unchanged else 200, self.asked.url, self.asked.url, b"" if unchanged else body, {"etag": etag}
        )
        if is_unchanged(self.asked, told):
            outcome = decide_unchanged(self.asked, told, now, POLICY, VisitCost())
        else:
            articles = tuple(Article(f"g{n}", f"https://a.example/{n}", f"T{n}", "x", "", self.times[n]) for n in shown)
            outcome = decide_read(
                self.asked, told, ParsedFeed("F", "https://a.example/", articles), now, POLICY, VisitCost()
            )
        for post in outcome.visited.posts:
            assert post["link"] not in self.found, "told twice"
            self.found[post["link"]] = now
        known = self.asked.known if outcome.visited.known is None else unpack_known(outcome.visited.known)
        self.asked = replace(self.asked, memory=VisitMemory.from_json(outcome.visited.visit), known=known)
        return outcome.visited.due_at

    def live(self, begin, end):
        now = begin
        while now < end:
            now = self.visit(now)


@pytest.mark.parametrize(("per_day", "days"), [(0.2, 700), (3, 90), (30, 14), (200, 5)])
def test_no_article_is_missed_or_repeated_over_months(per_day, days):
    rng = np.random.default_rng(7)
    end = BEGIN + days * DAY_S
    world = World(rng.uniform(BEGIN - 20 * DAY_S, end, int((days + 20) * per_day)))
    world.live(BEGIN, end + 2 * DAY_S)
    first = int(np.searchsorted(world.times, BEGIN, "right"))
    expected = {f"https://a.example/{n}" for n in range(max(0, first - world.window), len(world.times))}
    assert set(world.found) == expected
    ideal = (
        days
        * DAY_S
        / min(POLICY.max_interval_s, max(POLICY.min_interval_s, sqrt(2 * POLICY.request_worth_s * DAY_S / per_day)))
    )
    assert 0.7 * ideal < world.requests < 1.6 * ideal + 10


def test_feed_that_is_down_for_a_month_is_visited_daily():
    now, asked, requests = BEGIN, FeedVisit(1, "https://a.example/f", VisitMemory()), 0
    while now < BEGIN + 30 * DAY_S:
        outcome = decide_failed(asked, "it cannot be reached", now, POLICY, None, 0, VisitCost())
        asked = replace(asked, memory=VisitMemory.from_json(outcome.visited.visit))
        now, requests = outcome.visited.due_at, requests + 1
    assert 30 < requests < 45
    told = FeedResponse(200, asked.url, asked.url, b"x", {})
    back = decide_read(asked, told, ParsedFeed("F", "", (Article("g", "", "T", "x"),)), now, POLICY, VisitCost())
    assert (back.visited.state, len(back.visited.posts)) == ("ok", 1)
    assert back.visited.due_at < now + 2 * HOUR_S


def test_validators_are_sent_only_to_the_url_they_came_from():
    asked = FeedVisit(1, "https://a.example/f", VisitMemory(etag='"1"', told_by="https://b.example/f"))
    assert conditional_headers(asked) == {}


def test_hundred_articles_in_one_visit_are_one_update():
    """A feed that adds its archive does not update more often; the number of articles limits the interval."""
    calm = update_history(steady(1), 1, HOUR_S, POLICY)
    flooded = update_history(steady(1), 100, HOUR_S, POLICY)
    assert interval_s(flooded, POLICY) == interval_s(calm, POLICY)
    assert flooded.rate > calm.rate
    archive = estimate_history([BEGIN - DAY_S] * 300 + [BEGIN - 20 * DAY_S], BEGIN)
    assert (archive.articles, archive.updates) == (301, 2)


def test_default_intervals_for_an_article_per_hour_and_per_week():
    assert interval_s(steady(24), SchedulePolicy()) == pytest.approx(537, abs=3)
    assert interval_s(steady(1 / 7), SchedulePolicy()) == pytest.approx(6_956, abs=30)
