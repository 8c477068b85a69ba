"""The sample of what came: right in its proportions, bounded, and kept over a restart."""

from __future__ import annotations

import json
import time

import pytest
from tests.store.conftest import Clock

from tidings.query.parse import parse
from tidings.receive.inbox import put
from tidings.web.gather import gathered
from tidings.web.history import HOUR_S, History


def lines(*texts, **more):
    return [json.dumps({"text": text, **more}) for text in texts]


def test_before_the_first_post_nothing_is_estimated(tmp_path):
    assert History(tmp_path).estimate(parse("storm")) == (None, None, 0.0, 0)


def test_hours_count_by_what_came_in_them_and_not_by_their_samples(tmp_path):
    clock = Clock()
    history = History(tmp_path, clock)
    history.take(lines(*["storm"] * 1_000, *["sun"] * 1_000))
    clock.now += HOUR_S
    history.take(lines("storm", "sun", "sun", "sun"))
    clock.now += 11 * HOUR_S
    found = history.estimate(parse("storm"))
    assert found.posts_a_day == 2 * 2_004
    assert found.hours == 12
    assert found.sampled == 104
    assert found.matches_a_day == pytest.approx(2 * 1_001, rel=0.35)  # half of a hundred, give or take


def test_titles_tags_and_places_count_as_they_do_in_the_stream(tmp_path):
    history = History(tmp_path, Clock())
    history.take(lines("x", title="Storms", tags=["Heavy Rain"], lat=51.5, lon=-0.1))
    for query in ("storm", "#heavy_rain", "storm near:51.5,-0.1,5"):
        assert history.estimate(parse(query)).matches_a_day > 0
    for query in ("wind OR sun", "storm near:48,2,5"):
        assert history.estimate(parse(query)).matches_a_day == 0


def test_a_restart_forgets_nothing_and_a_week_is_all_it_remembers(tmp_path):
    clock = Clock()
    history = History(tmp_path, clock)
    history.take(lines("storm", "sun"))
    history.save()
    clock.now += 24 * HOUR_S
    again = History(tmp_path, clock)
    (tmp_path / "7.json").write_text("{")
    again.load()
    assert again.estimate(parse("storm")) == history.estimate(parse("storm"))
    assert again.estimate(parse("storm")).matches_a_day == pytest.approx(1)
    clock.now += 7 * 24 * HOUR_S
    again.take(lines("sun"))
    again.save()
    assert again.estimate(parse("storm")).matches_a_day == 0
    assert len(list(tmp_path.glob("*.json"))) == 1


def test_what_is_no_post_is_counted_and_left_out(tmp_path):
    history = History(tmp_path, Clock())
    history.take([b"\xff", "{", "[]", "3", '{"text": 5}', '{"text": "storm", "lat": "x"}', '{"text": "storm"}'])
    assert history.estimate(parse("storm")).sampled == 1


def test_whatever_is_put_into_the_inbox_is_noticed(tmp_path):
    history = History(tmp_path / "history")
    put(tmp_path / "inbox", "before", [{"text": "sun"}])
    with gathered(tmp_path / "inbox", history):
        put(tmp_path / "inbox", "crawl-1", [{"text": "storm"}, {"text": "sun"}])
        for _ in range(100):
            if history.estimate(parse("storm")).sampled:
                break
            time.sleep(0.05)
    assert history.estimate(parse("storm")).sampled == 2
    assert list((tmp_path / "history").glob("*.json"))
