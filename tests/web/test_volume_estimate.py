"""The sample of what came: right in its proportions, bounded, and kept over a restart."""

from __future__ import annotations

import json
import time

import pytest

from tidings.ingest.inbox import write_posts
from tidings.query.parse import parse
from tidings.testing.clock import FakeClock
from tidings.web.inbox_sampler import inbox_sampler
from tidings.web.volume_estimate import HOUR_S, VolumeEstimator


def lines(*texts, **more):
    return [json.dumps({"text": text, **more}) for text in texts]


def test_before_the_first_post_nothing_is_estimated(tmp_path):
    assert VolumeEstimator(tmp_path).estimate(parse("storm")) == (None, None, 0.0, 0)


def test_hours_count_by_what_came_in_them_and_not_by_their_samples(tmp_path):
    clock = FakeClock()
    history = VolumeEstimator(tmp_path, clock)
    history.add_posts(lines(*["storm"] * 1_000, *["sun"] * 1_000))
    clock.now += HOUR_S
    history.add_posts(lines("storm", "sun", "sun", "sun"))
    clock.now += 11 * HOUR_S
    found = history.estimate(parse("storm"))
    assert found.posts_per_day == 2 * 2_004
    assert found.hours == 12
    assert found.sampled == 104
    assert found.matches_per_day == pytest.approx(2 * 1_001, rel=0.35)  # half of a hundred, give or take


def test_titles_tags_and_places_count_as_they_do_in_the_stream(tmp_path):
    history = VolumeEstimator(tmp_path, FakeClock())
    history.add_posts(lines("x", title="Storms", tags=["Heavy Rain"], lat=51.5, lon=-0.1))
    for query in ("storm", "#heavy_rain", "storm near:51.5,-0.1,5"):
        assert history.estimate(parse(query)).matches_per_day > 0
    for query in ("wind OR sun", "storm near:48,2,5"):
        assert history.estimate(parse(query)).matches_per_day == 0


def test_a_restart_forgets_nothing_and_a_week_is_all_it_remembers(tmp_path):
    clock = FakeClock()
    history = VolumeEstimator(tmp_path, clock)
    history.add_posts(lines("storm", "sun"))
    history.save()
    clock.now += 24 * HOUR_S
    again = VolumeEstimator(tmp_path, clock)
    (tmp_path / "7.json").write_text("{")
    again.load()
    assert again.estimate(parse("storm")) == history.estimate(parse("storm"))
    assert again.estimate(parse("storm")).matches_per_day == pytest.approx(1)
    clock.now += 7 * 24 * HOUR_S
    again.add_posts(lines("sun"))
    again.save()
    assert again.estimate(parse("storm")).matches_per_day == 0
    assert len(list(tmp_path.glob("*.json"))) == 1


def test_what_is_no_post_is_counted_and_left_out(tmp_path):
    history = VolumeEstimator(tmp_path, FakeClock())
    history.add_posts([b"\xff", "{", "[]", "3", '{"text": 5}', '{"text": "storm", "lat": "x"}', '{"text": "storm"}'])
    assert history.estimate(parse("storm")).sampled == 1


def test_whatever_is_put_into_the_inbox_is_noticed(tmp_path):
    history = VolumeEstimator(tmp_path / "history")
    write_posts(tmp_path / "inbox", "before", [{"text": "sun"}])
    with inbox_sampler(tmp_path / "inbox", history):
        write_posts(tmp_path / "inbox", "crawl-1", [{"text": "storm"}, {"text": "sun"}])
        for _ in range(100):
            if history.estimate(parse("storm")).sampled:
                break
            time.sleep(0.05)
    assert history.estimate(parse("storm")).sampled == 2
    assert list((tmp_path / "history").glob("*.json"))


def test_a_long_post_and_a_costly_query_take_little(tmp_path):
    """A week of posts of a megabyte each, or a query of a thousand ways tried on all of them, would take the server."""
    clock = FakeClock()
    history = VolumeEstimator(tmp_path, clock)
    history.add_posts(lines("rain " * 200_000, title="x" * 100_000, tags=["y" * 100_000] * 1_000))
    history.save()
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) < 20_000
    for _ in range(10):
        clock.now += HOUR_S
        history.add_posts(lines(*["storm tea milk", "sun"] * 50))
    either = " OR ".join(f'"tea w{number}"' for number in range(200))
    found = history.estimate(parse(f"storm ({either} OR milk)"))
    assert found.matches_per_day == pytest.approx(0.5 * found.posts_per_day, rel=0.2)
    assert found.sampled < 1_000


@pytest.mark.parametrize("line", ['{"text": "x", "lat": 1%s, "lon": 1}' % ("0" * 400), "[" * 100_000, "7", "{"])
def test_a_line_that_is_no_post_is_not_sampled(tmp_path, line):
    history = VolumeEstimator(tmp_path, FakeClock())
    history.add_posts([line, *lines("storm")])
    assert history.estimate(parse("storm")).sampled == 1


def test_a_disk_without_room_costs_the_sample_nothing_but_its_copy(tmp_path, monkeypatch, caplog):
    history = VolumeEstimator(tmp_path / "history", FakeClock())
    history.add_posts(lines("storm"))

    def full(file, text):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("tidings.web.volume_estimate.write_atomically", full)
        history.save()
    assert "No space left" in caplog.text
    history.save()
    again = VolumeEstimator(tmp_path / "history", FakeClock())
    again.load()
    assert again.estimate(parse("storm")).sampled == 1
