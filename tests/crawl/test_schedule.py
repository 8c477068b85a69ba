"""When feeds are due: pure arithmetic, and months of it in seconds under a clock that is only a number."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

import numpy as np
import pytest

from tidings.crawl.article import Article, Document
from tidings.crawl.decide import Asked, Memory, conditions, failed, is_same, read, same
from tidings.crawl.fetch import Fetched
from tidings.crawl.identity import unpacked
from tidings.crawl.rate_limit import Hosts, Politeness
from tidings.crawl.schedule import DAY_S, Pace, Rhythm, backoff_s, first_seen, freshness_s, interval_s, observed, spread
from tidings.store import DueFeed

PACE = Pace(worth_s=112)  # with an article an hour: every 15 minutes
HOUR_S, BEGIN = 3_600.0, 1_790_000_000.0


def steady(a_day: float) -> Rhythm:
    return Rhythm(articles=a_day * 1_000, over_s=1_000 * DAY_S, updates=a_day * 1_000)


def test_the_interval_is_that_of_least_cost():
    for a_day in (1, 7, 40):
        rate = steady(a_day).rate
        cost = {every: PACE.worth_s / every + rate * every / 2 for every in np.arange(300, 86_400, 10.0)}
        assert interval_s(steady(a_day), PACE) == pytest.approx(min(cost, key=cost.get), abs=10)
    assert interval_s(steady(24), PACE) == pytest.approx(900, rel=0.01)
    assert interval_s(steady(0.24), PACE) == pytest.approx(9_000, rel=0.01)


def test_no_feed_is_asked_more_or_less_often_than_allowed():
    assert interval_s(steady(1e6), PACE) == PACE.least_s
    assert interval_s(steady(0), PACE) == PACE.most_s


def test_feed_and_server_may_ask_for_more_time_but_not_for_ever():
    assert interval_s(replace(steady(24), asked_for_s=7_200.0), PACE) == 7_200
    assert interval_s(replace(steady(24), asked_for_s=1e9), PACE) == PACE.most_s


def test_a_document_of_few_articles_is_asked_before_they_are_gone():
    assert interval_s(replace(steady(96), window=2), PACE) == pytest.approx(450, rel=0.01)
    assert interval_s(steady(1), PACE, is_torn=True) == PACE.least_s


def test_failures_double_the_wait_up_to_a_day():
    waits = [backoff_s(replace(steady(24), failures=n), PACE) for n in range(1, 12)]
    assert waits[:4] == pytest.approx([900, 1_800, 3_600, 7_200], rel=0.01)
    assert waits[-1] == DAY_S


def test_the_dates_of_a_new_feed_tell_its_rate():
    daily = first_seen([BEGIN - n * DAY_S for n in range(1, 31)], BEGIN)
    assert daily.rate == pytest.approx(1 / DAY_S, rel=0.05)
    asleep = first_seen([BEGIN - (300 + n) * DAY_S for n in range(9)], BEGIN)
    assert asleep.rate < 1 / (100 * DAY_S)
    assert first_seen([None, None], BEGIN) == first_seen([BEGIN + 9e6], BEGIN) == Rhythm()
    assert Rhythm().rate == pytest.approx(1 / DAY_S)


def test_a_feed_that_wakes_up_is_asked_more_often_within_days_and_less_when_it_sleeps():
    rhythm, intervals = Rhythm(), []
    for day in range(90):
        a_day = 48 if 30 <= day < 60 else 0
        for _ in range(24):
            rhythm = observed(rhythm, a_day // 24, HOUR_S, PACE)
        intervals.append(interval_s(rhythm, PACE))
    assert intervals[29] > 4 * HOUR_S
    assert intervals[35] < HOUR_S
    assert intervals[59] < 1_200  # two articles an hour, looked for once an hour, are one update
    assert intervals[89] > 1_000


def test_feeds_added_together_do_not_stay_together():
    waits = {spread(1_000.0, feed, 1) for feed in range(100)}
    assert len(waits) == 100
    assert 950 <= min(waits) < 960 < 1_040 < max(waits) <= 1_050
    assert spread(1_000.0, 7, 3) == spread(1_000.0, 7, 3)


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
def test_how_long_a_document_is_fresh(control, expires, fresh_s):
    assert freshness_s(control, expires, "Thu, 01 Jan 2026 12:00:00 GMT") == fresh_s


def due(number: int, host: str) -> DueFeed:
    return DueFeed(number, f"https://{host}/{number}", 0.0, "{}")


def test_a_host_is_asked_as_much_as_is_polite_in_a_round():
    hosts = Hosts(Politeness(between_s=5.0, round_s=20.0))
    waiting = [due(n, "big.example") for n in range(10)] + [due(99, "small.example")]
    assert [one.id for one in hosts.chosen(waiting, BEGIN)] == [0, 1, 2, 3, 99]
    hosts.asked("https://big.example/x", BEGIN)
    assert [one.id for one in hosts.chosen(waiting, BEGIN + 4.9)] == [99]
    assert len(hosts.chosen(waiting, BEGIN + 5)) == 5


def test_a_host_that_wants_peace_gets_it_for_all_its_feeds():
    hosts = Hosts()
    hosts.asked("https://a.example/1", BEGIN, wait_s=600.0)
    hosts.asked("https://a.example/2", BEGIN + 1)
    assert hosts.chosen([due(2, "a.example"), due(3, "b.example")], BEGIN + 599) == [due(3, "b.example")]
    assert hosts.free_at([due(2, "a.example")]) == BEGIN + 600


class World:
    """A feed whose articles come at given times, visited by our decisions; the clock is a number."""

    def __init__(self, times, window=20):
        self.times, self.window = sorted(map(float, times)), window
        self.asked = Asked(1, "https://a.example/f", Memory())
        self.found, self.requests = {}, 0

    def visit(self, now):
        self.requests += 1
        count = int(np.searchsorted(self.times, now, "right"))
        shown = range(max(0, count - self.window), count)
        body = str(list(shown)).encode()
        etag = f'"{count}"'
        unchanged = conditions(self.asked).get("If-None-Match") == etag
        told = Fetched(
            304 if unchanged else 200, self.asked.url, self.asked.url, b"" if unchanged else body, {"etag": etag}
        )
        if is_same(self.asked, told):
            outcome = same(self.asked, told, now, PACE)
        else:
            articles = tuple(Article(f"g{n}", f"https://a.example/{n}", f"T{n}", "x", "", self.times[n]) for n in shown)
            outcome = read(self.asked, told, Document("F", "https://a.example/", articles), now, PACE)
        for post in outcome.visited.posts:
            assert post["link"] not in self.found, "told twice"
            self.found[post["link"]] = now
        known = self.asked.known if outcome.visited.known is None else unpacked(outcome.visited.known)
        self.asked = replace(self.asked, memory=Memory.from_json(outcome.visited.visit), known=known)
        return outcome.visited.due_at

    def live(self, begin, end):
        now = begin
        while now < end:
            now = self.visit(now)


@pytest.mark.parametrize(("a_day", "days"), [(0.2, 700), (3, 90), (30, 14), (200, 5)])
def test_over_months_no_article_is_missed_or_repeated_and_requests_follow_the_rate(a_day, days):
    rng = np.random.default_rng(7)
    end = BEGIN + days * DAY_S
    world = World(rng.uniform(BEGIN - 20 * DAY_S, end, int((days + 20) * a_day)))
    world.live(BEGIN, end + 2 * DAY_S)
    first = int(np.searchsorted(world.times, BEGIN, "right"))
    expected = {f"https://a.example/{n}" for n in range(max(0, first - world.window), len(world.times))}
    assert set(world.found) == expected
    ideal = days * DAY_S / min(PACE.most_s, max(PACE.least_s, sqrt(2 * PACE.worth_s * DAY_S / a_day)))
    assert 0.7 * ideal < world.requests < 1.6 * ideal + 10


def test_a_feed_that_is_down_for_a_month_is_asked_about_daily_and_comes_back():
    now, asked, requests = BEGIN, Asked(1, "https://a.example/f", Memory()), 0
    while now < BEGIN + 30 * DAY_S:
        outcome = failed(asked, "it cannot be reached", now, PACE, None)
        asked = replace(asked, memory=Memory.from_json(outcome.visited.visit))
        now, requests = outcome.visited.due_at, requests + 1
    assert 30 < requests < 45
    told = Fetched(200, asked.url, asked.url, b"x", {})
    back = read(asked, told, Document("F", "", (Article("g", "", "T", "x"),)), now, PACE)
    assert (back.visited.state, len(back.visited.posts)) == ("ok", 1)
    assert back.visited.due_at < now + 2 * HOUR_S


def test_conditions_are_not_sent_to_an_address_that_did_not_give_them():
    asked = Asked(1, "https://a.example/f", Memory(etag='"1"', told_by="https://b.example/f"))
    assert conditions(asked) == {}


def test_a_hundred_articles_at_once_are_one_update():
    """A site that puts its archive into its feed is no busier for it; the window is watched by articles still."""
    calm = observed(steady(1), 1, HOUR_S, PACE)
    flooded = observed(steady(1), 100, HOUR_S, PACE)
    assert interval_s(flooded, PACE) == interval_s(calm, PACE)
    assert flooded.rate > calm.rate
    archive = first_seen([BEGIN - DAY_S] * 300 + [BEGIN - 20 * DAY_S], BEGIN)
    assert (archive.articles, archive.updates) == (301, 2)


def test_as_it_is_set_an_article_an_hour_is_asked_for_every_nine_minutes_and_one_a_week_every_two_hours():
    assert interval_s(steady(24), Pace()) == pytest.approx(537, abs=3)
    assert interval_s(steady(1 / 7), Pace()) == pytest.approx(6_956, abs=30)
