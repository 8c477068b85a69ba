"""The lab of provisioning: histories, polling policies, the network model, and a complete calibration."""

from __future__ import annotations

import gzip
import zipfile
from pathlib import Path

import numpy as np
import pytest
from tests.data import shared

from tidings.crawl.parse import parse
from tidings.crawl.schedule import SchedulePolicy
from tidings.provision.costs import NAMES, ServiceCosts
from tidings_lab import datasets
from tidings_lab.calibrate_costs import QUICK, calibrate
from tidings_lab.history import DAY_S, HISTORY, FeedHistory, Item, RecordedFeed, Snapshot, load_history
from tidings_lab.network_model import CITIES, NetworkModel, city_rtt_ms
from tidings_lab.polling import adaptive_schedule, fixed_interval, oracle_visits, simulate_polling

SEED = 5


def _feed(name: str, times: list[float], end: float) -> RecordedFeed:
    return RecordedFeed(name, [Snapshot(0.0, b"x")], [Item(at, str(at), str(at), "") for at in times], [0.0, end])


def test_article_waits_for_the_first_visit_after_it() -> None:
    history = FeedHistory([_feed("a", [10.0, 25.0, 30.0], 100.0)], "manual")
    found = simulate_polling(history, lambda feed: np.array([20.0, 30.0, 40.0]))
    assert found.visits == 3
    assert found.waits_s.tolist() == found.update_waits_s.tolist() == [10.0, 5.0, 0.0]
    together = simulate_polling(
        FeedHistory([_feed("a", [10.0, 10.0, 15.0], 100.0)], "manual"), lambda feed: np.array([20.0])
    )
    assert (together.waits_s.tolist(), together.update_waits_s.tolist()) == ([10.0, 10.0, 5.0], [10.0, 5.0])
    unvisited = simulate_polling(history, lambda feed: np.zeros(0))
    assert unvisited.waits_s.tolist() == [90.0, 75.0, 70.0]
    oracle = simulate_polling(history, oracle_visits)
    assert (oracle.visits, oracle.waits_s.sum()) == (3, 0.0)


def test_fixed_polling_waits_half_its_interval() -> None:
    rng = np.random.default_rng(SEED)
    feeds = [_feed(f"f{n}", sorted(rng.uniform(0, 90 * DAY_S, 300).tolist()), 90 * DAY_S) for n in range(10)]
    found = simulate_polling(FeedHistory(feeds, "generated"), fixed_interval(3_600.0))
    assert found.visits == pytest.approx(10 * 90 * 24, abs=10)
    assert found.waits_s.max() <= 3_600.0 + 1e-6
    assert found.waits_s.mean() == pytest.approx(1_800.0, rel=0.05)


def test_scheduler_beats_fixed_polling_if_article_rates_differ() -> None:
    """One feed in ten has nearly all articles: the same number of requests finds them sooner."""
    rng = np.random.default_rng(SEED)
    rates = [24.0] + [0.1] * 9
    feeds = [
        _feed(f"f{n}", sorted(rng.uniform(0, 60 * DAY_S, rng.poisson(rate * 60)).tolist()), 60 * DAY_S)
        for n, rate in enumerate(rates)
    ]
    history = FeedHistory(feeds, "generated")
    ours = simulate_polling(history, adaptive_schedule(SchedulePolicy()))
    fixed = simulate_polling(history, fixed_interval(10 * 60 * DAY_S / ours.visits))
    assert fixed.visits == pytest.approx(ours.visits, rel=0.02)
    assert ours.waits_s.mean() < 0.6 * fixed.waits_s.mean()


def test_generated_history_is_read_by_the_parser_of_the_crawler() -> None:
    history = load_history(SEED)
    assert history.source.startswith("generated")
    assert history.feeds == load_history(SEED).feeds
    for feed in history.feeds:
        assert feed.document(feed.snapshots[0].at - 1) is None
        for item in feed.items:
            document = feed.document(item.at)
            assert document is not None
            assert parse(document, "", "https://feed.example/").articles[0].link == item.link


def test_history_in_an_archive_is_read_as_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / datasets.TWEETS).touch()
    with zipfile.ZipFile(tmp_path / HISTORY, "w") as archive:
        archive.writestr("snapshots/f/100.xml.gz", gzip.compress(b"old"))
        archive.writestr("snapshots/f/7300.xml.gz", gzip.compress(b"new"))
        times = ("1970-01-01T00:01:40Z", "1970-01-01T01:01:40Z", "1970-01-01T02:01:40Z")
        archive.writestr(
            "crawls.tsv", "crawl_time\tfeed\n" + "".join(f"{at}\tf\n" for at in times) + f"{times[0]}\tonce\n"
        )
        head = "first_seen\tfeed\tguid\tlink\ttitle\tfirst_crawl\n"
        archive.writestr("items.tsv", f"{head}{times[0]}\tf\tg0\tl0\tOld\t1\n{times[2]}\tf\tg1\tl1\tNew\t0\n")
    monkeypatch.setenv("TIDINGS_DATA", str(tmp_path))
    (feed,) = load_history(SEED).feeds
    assert (feed.visited_at, feed.items) == ([100.0, 3_700.0, 7_300.0], [Item(7_300.0, "g1", "l1", "New")])
    assert [feed.document(at) for at in (99.0, 100.0, 7_299.0, 7_300.0)] == [None, b"old", b"old", b"new"]


@pytest.mark.real_data
def test_real_history_has_the_documented_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDINGS_DATA", str(shared(HISTORY).parent))
    history = load_history(SEED)
    assert sum(len(feed.items) for feed in history.feeds) == 1_118
    assert history.articles_per_feed_day() == pytest.approx(0.31, abs=0.005)


def test_distant_cities_have_longer_round_trips_and_near_crawlers_are_faster() -> None:
    rng = np.random.default_rng(SEED)
    names = list(CITIES)
    rtt = city_rtt_ms(names, ["London"], rng)[:, 0]
    assert rtt[names.index("London")] < 1 < rtt[names.index("Paris")] < rtt[names.index("Sydney")]
    assert 160 < rtt[names.index("Sydney")] < 600  # light in glass takes 170 ms for the round trip
    world = NetworkModel.generate(2_000, ["Boston", "Tokyo"], np.array([50_000.0]), SEED)
    near = world.rtt_ms.argmin(axis=1)
    assert (world.fetch_ms(near) <= world.fetch_ms(1 - near)).all()
    assert (world.rounds == 3 + 3).all()  # 50 kB are three doublings of ten segments


@pytest.mark.long
def test_quick_calibration_measures_every_cost_with_its_origin() -> None:
    lines: list[str] = []
    found = calibrate(lines.append, QUICK)
    assert isinstance(found.costs, ServiceCosts)
    assert set(found.how) == set(NAMES)
    assert all(how.startswith(("measured", "assumed")) for how in found.how.values())
    assert all(getattr(found.costs, name) >= 0 for name in NAMES)
    for name in ("receive_cpu_s", "crawl_poll_cpu_s", "answer_unchanged_cpu_s", "hit_cpu_s", "article_bytes"):
        assert getattr(found.costs, name) > 0, name
    assert found.origin["commit"]
    assert len(lines) > 4
