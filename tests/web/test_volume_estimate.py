"""The sample of what came: right in its proportions, bounded, and kept over a restart."""

from __future__ import annotations

import json
import time

import pytest
from tests.store.conftest import Clock

from tidings.ingest.inbox import put
from tidings.query.parse import parse
from tidings.web.inbox_sampler import gathered
from tidings.web.volume_estimate import HOUR_S, History


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


def test_a_long_post_and_a_costly_query_take_little(tmp_path):
    """A week of posts of a megabyte each, or a query of a thousand ways tried on all of them, would take the server."""
    clock = Clock()
    history = History(tmp_path, clock)
    history.take(lines("rain " * 200_000, title="x" * 100_000, tags=["y" * 100_000] * 1_000))
    history.save()
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) < 20_000
    for _ in range(10):
        clock.now += HOUR_S
        history.take(lines(*["storm tea milk", "sun"] * 50))
    either = " OR ".join(f'"tea w{number}"' for number in range(200))
    found = history.estimate(parse(f"storm ({either} OR milk)"))
    assert found.matches_a_day == pytest.approx(0.5 * found.posts_a_day, rel=0.2)
    assert found.sampled < 1_000


@pytest.mark.parametrize("line", ['{"text": "x", "lat": 1%s, "lon": 1}' % ("0" * 400), "[" * 100_000, "7", "{"])
def test_a_line_that_is_no_post_is_not_sampled(tmp_path, line):
    history = History(tmp_path, Clock())
    history.take([line, *lines("storm")])
    assert history.estimate(parse("storm")).sampled == 1


def test_a_disk_without_room_costs_the_sample_nothing_but_its_copy(tmp_path, monkeypatch, caplog):
    history = History(tmp_path / "history", Clock())
    history.take(lines("storm"))

    def full(file, text):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("tidings.web.volume_estimate.write_whole", full)
        history.save()
    assert "No space left" in caplog.text
    history.save()
    again = History(tmp_path / "history", Clock())
    again.load()
    assert again.estimate(parse("storm")).sampled == 1
