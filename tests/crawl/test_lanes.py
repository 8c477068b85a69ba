"""Feeds take the slow lane by what they cost: the feed itself, its host, or its followers."""

from __future__ import annotations

import asyncio
import time

import pytest
from tests.crawl.servers import BEGIN

from tidings.crawl import round_clock
from tidings.crawl.article import NotAFeed
from tidings.crawl.decide import FeedVisit, VisitMemory, decide_failed, decide_postponed
from tidings.crawl.lane_choice import OWNER_BUDGET_S, POSTPONED_S, WINDOW_S, LaneChoice
from tidings.crawl.lanes import FAST, SLOW, VisitCost
from tidings.crawl.parser_pool import ParseBudgetSpent, ParserPool
from tidings.crawl.parser_process import ParserLimitExceeded, ParserProcess
from tidings.crawl.round_clock import RoundClock, RoundOver
from tidings.crawl.schedule import SchedulePolicy
from tidings.store.feeds import DueFeed
from tidings.testing.feed_servers import rss
from tidings.testing.hostile_servers import expensive_document

FOLLOWERS = {n: ["mallory"] for n in range(1, 50)} | {50: ["alice"], 51: ["alice", "mallory"]}


def due(number: int, host: str = "", memory: VisitMemory = VisitMemory()) -> DueFeed:
    return DueFeed(number, f"https://{host or number}.example/{number}", BEGIN, memory.to_json())


def choice() -> LaneChoice:
    return LaneChoice(lambda feeds: {feed: FOLLOWERS[feed] for feed in feeds})


def postpone(lanes: LaneChoice, feeds: list[DueFeed], now: float = BEGIN) -> None:
    outcomes = [decide_postponed(FeedVisit(feed.id, feed.url, VisitMemory()), now, VisitCost()) for feed in feeds]
    lanes.record(outcomes, {feed.id: feed.url for feed in feeds}, now)


def ids(lanes: LaneChoice, feeds: list[DueFeed], now: float = BEGIN) -> tuple[list[int], list[int]]:
    split = lanes.split(feeds, now)
    return [feed.id for feed in split[FAST]], [feed.id for feed in split[SLOW]]


def test_feed_that_was_slow_or_expensive_takes_the_slow_lane():
    costs = [VisitCost(), VisitCost(fetch_s=0.9), VisitCost(fetch_s=3.0), VisitCost(parse_cpu_s=1.0)]
    feeds = [due(n, memory=VisitMemory(cost=cost)) for n, cost in enumerate(costs, 1)]
    assert ids(choice(), feeds) == ([1, 2], [3, 4])


def test_postponed_feed_stays_in_the_slow_lane_until_it_is_visited():
    lanes, feeds = choice(), [due(1), due(2)]
    postpone(lanes, feeds[:1])
    assert ids(lanes, feeds) == ([2], [1])
    visit = FeedVisit(1, feeds[0].url, VisitMemory())
    outcome = decide_failed(visit, "not found", BEGIN, SchedulePolicy(), None, 0, VisitCost())
    lanes.record([outcome], {1: feeds[0].url}, BEGIN)
    assert ids(lanes, feeds) == ([1, 2], [])


def test_host_that_exceeds_its_budget_takes_the_slow_lane_for_a_minute():
    lanes, feeds = choice(), [due(n, "same") for n in range(1, 4)] + [due(50)]
    postpone(lanes, feeds[:2])
    assert ids(lanes, feeds[2:]) == ([50], [3])
    assert ids(lanes, feeds[2:], BEGIN + WINDOW_S) == ([3, 50], [])


def test_unknown_feeds_of_an_owner_who_exceeds_the_budget_take_the_slow_lane():
    lanes, many = choice(), round(OWNER_BUDGET_S / POSTPONED_S)
    postpone(lanes, [due(n) for n in range(1, many + 1)])
    proven = due(40, memory=VisitMemory(read_at=BEGIN))
    assert ids(lanes, [due(41), proven, due(50), due(51)]) == ([40, 50, 51], [41])
    assert ids(lanes, [due(41)], BEGIN + WINDOW_S) == ([41], [])


def test_slow_lane_visits_feeds_with_fewest_failures_first():
    lanes = choice()
    failing = VisitMemory.from_json('{"rhythm": {"failures": 3}, "cost": {"fetch_s": 20.0}}')
    assert ids(lanes, [due(1, memory=failing), due(2, memory=VisitMemory(cost=VisitCost(5.0)))]) == ([], [2, 1])


@pytest.mark.parametrize(("lane", "fetch_s"), [(FAST, 0.0), (SLOW, 5.0)])
def test_owners_take_turns(lane, fetch_s):
    memory = VisitMemory(cost=VisitCost(fetch_s))
    lanes = LaneChoice(lambda feeds: {feed: ["alice"] if feed > 1_000 else ["mallory"] for feed in feeds})
    feeds = lanes.split([due(n, memory=memory) for n in (1, 2, 3, 4, 2_001, 2_002)], BEGIN)[lane]
    assert [feed.id for feed in feeds] == [1, 2_001, 2, 2_002, 3, 4]
    assert [feed.owner for feed in feeds] == ["mallory", "alice", "mallory", "alice", "mallory", "mallory"]


def test_expensive_document_ends_its_worker_only():
    async def run():
        with pytest.raises(ParserLimitExceeded, match=r"more than 0\.2 seconds"):
            await parser.parse(expensive_document(), "", "https://a.example/", cpu_s=0.2)
        assert parser.cpu_s == 0.2
        child = parser._child
        assert len((await parser.parse(rss("a"), "", "https://a.example/")).articles) == 1
        assert (parser._child, parser.cpu_s < 0.2) == (child, True)

    parser = ParserProcess()
    try:
        asyncio.run(run())
    finally:
        parser.close()


class CostlyParser(ParserProcess):
    """Takes a second of CPU time for each document, and notes the order."""

    def __init__(self) -> None:
        super().__init__()
        self.order: list[str] = []

    async def parse(self, document, content_type, url, cpu_s=1.0):
        self.order.append(url)
        await asyncio.sleep(0)
        self.cpu_s = 1.0
        raise NotAFeed("costly")


def test_proven_feeds_are_parsed_first_and_others_only_within_the_budget():
    async def run():
        pool, cost = ParserPool([parser], 1.0, budget_s=2.0), VisitCost()
        ranks = {"first": 1, "expensive": 2, "unknown": 1, "proven": 0}
        visits = [pool.parse(b"", "", name, rank, "mallory", cost) for name, rank in ranks.items()]
        return await asyncio.gather(*visits, return_exceptions=True), cost.parse_cpu_s

    parser = CostlyParser()
    found, cpu_s = asyncio.run(run())
    assert parser.order == ["first", "proven"]
    assert [type(error) for error in found] == [NotAFeed, ParseBudgetSpent, ParseBudgetSpent, NotAFeed]
    assert cpu_s == 2.0


def test_expensive_documents_of_one_owner_do_not_delay_or_postpone_those_of_others():
    async def run():
        pool = ParserPool([parser], 1.0, budget_s=2.0)
        owners = {"a": "mallory", "b": "mallory", "c": "mallory", "d": "mallory", "e": "alice"}
        visits = [pool.parse(b"", "", name, 1, owner, VisitCost()) for name, owner in owners.items()]
        return await asyncio.gather(*visits, return_exceptions=True)

    parser = CostlyParser()
    found = asyncio.run(run())
    assert parser.order == ["a", "e", "b"]
    assert [type(error) for error in found] == [NotAFeed, NotAFeed, ParseBudgetSpent, ParseBudgetSpent, NotAFeed]


def test_fetches_end_with_their_round():
    async def run():
        clock = RoundClock(start_s=0.0, fetch_s=0.1)
        assert clock.can_start
        counting = asyncio.create_task(clock.run())
        with pytest.raises(RoundOver):
            async with clock.fetching():
                await asyncio.sleep(60)
        with pytest.raises(RoundOver):
            async with clock.fetching():
                raise AssertionError("a fetch started after the end")
        await counting
        assert not clock.can_start

    asyncio.run(run())


def test_time_in_which_the_event_loop_is_busy_hardly_counts_against_servers(monkeypatch):
    async def run():
        clock, start_s = RoundClock(start_s=60.0, fetch_s=60.0), time.monotonic()
        counting = asyncio.create_task(clock.run())
        for _ in range(8):
            await asyncio.sleep(0.06)  # longer than a tick
            time.sleep(0.4)  # as if it read a flood from another server
        counting.cancel()
        return clock.seconds() / (time.monotonic() - start_s)

    monkeypatch.setattr(round_clock, "_cpu_wait_s", lambda: 0.0)
    assert asyncio.run(run()) < 0.6
