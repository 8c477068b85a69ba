"""The sample of posts: correct proportions, limited in size, and kept over a restart."""

from __future__ import annotations

import json
import random
import time

import pytest

from tidings.ingest.inbox import write_posts
from tidings.matching.brute_force import match_all
from tidings.query.parse import parse
from tidings.testing.clock import FakeClock
from tidings.testing.hostile_queries import FREQUENT_WORDS, SHAPES
from tidings.web.inbox_sampler import inbox_sampler
from tidings.web.volume_estimate import HOUR_S, VolumeEstimator


def lines(*texts, **more):
    return [json.dumps({"text": text, **more}) for text in texts]


def test_there_is_no_estimate_before_the_first_post(tmp_path):
    assert VolumeEstimator(tmp_path).estimate(parse("storm")) == (None, None, 0.0, 0)


def test_hours_are_weighted_by_their_posts_not_by_their_samples(tmp_path):
    clock = FakeClock()
    estimator = VolumeEstimator(tmp_path, clock)
    estimator.add_posts(lines(*["storm"] * 1_000, *["sun"] * 1_000))
    clock.now += HOUR_S
    estimator.add_posts(lines("storm", "sun", "sun", "sun"))
    clock.now += 11 * HOUR_S
    estimate = estimator.estimate(parse("storm"))
    assert estimate.posts_per_day == 2 * 2_004
    assert estimate.hours == 12
    assert estimate.sampled_posts == 104
    assert estimate.matches_per_day == pytest.approx(2 * 1_001, rel=0.35)  # about half of a hundred


def test_titles_tags_and_positions_match_like_in_the_stream(tmp_path):
    estimator = VolumeEstimator(tmp_path, FakeClock())
    estimator.add_posts(lines("x", title="Storms", tags=["Heavy Rain"], lat=51.5, lon=-0.1))
    for query in ("storm", "#heavy_rain", "storm near:51.5,-0.1,5"):
        assert estimator.estimate(parse(query)).matches_per_day > 0
    for query in ("wind OR sun", "storm near:48,2,5"):
        assert estimator.estimate(parse(query)).matches_per_day == 0


@pytest.mark.parametrize("make", SHAPES.values(), ids=SHAPES)
def test_all_shapes_of_queries_match_the_posts_that_brute_force_matches(tmp_path, make):
    rng, query = random.Random(0), make(1)
    words = [*FREQUENT_WORDS, *query.replace('"', "").split()]
    texts = [" ".join(rng.choices(words, k=30)) for _ in range(99)] + [query.replace("-", "")[:4_000]]
    estimator = VolumeEstimator(tmp_path, FakeClock())
    estimator.add_posts(lines(*texts))
    estimate = estimator.estimate(parse(query))
    matches = match_all([(text, None, None) for text in texts], [parse(query)])
    assert estimate.sampled_posts == 100, "the work limit would choose some of them"
    assert estimate.matches_per_day / estimate.posts_per_day == pytest.approx(len(matches) / 100)


def test_the_sample_survives_a_restart_and_covers_a_week(tmp_path):
    clock = FakeClock()
    estimator = VolumeEstimator(tmp_path, clock)
    estimator.add_posts(lines("storm", "sun"))
    estimator.save()
    clock.now += 24 * HOUR_S
    restarted = VolumeEstimator(tmp_path, clock)
    (tmp_path / "7.json").write_text("{")
    restarted.load()
    assert restarted.estimate(parse("storm")) == estimator.estimate(parse("storm"))
    assert restarted.estimate(parse("storm")).matches_per_day == pytest.approx(1)
    clock.now += 7 * 24 * HOUR_S
    restarted.add_posts(lines("sun"))
    restarted.save()
    assert restarted.estimate(parse("storm")).matches_per_day == 0
    assert len(list(tmp_path.glob("*.json"))) == 1


def test_invalid_lines_are_not_sampled(tmp_path):
    estimator = VolumeEstimator(tmp_path, FakeClock())
    estimator.add_posts([b"\xff", "{", "[]", "3", '{"text": 5}', '{"text": "storm", "lat": "x"}', '{"text": "storm"}'])
    assert estimator.estimate(parse("storm")).sampled_posts == 1


def test_new_files_of_the_inbox_are_sampled(tmp_path):
    estimator = VolumeEstimator(tmp_path / "history")
    write_posts(tmp_path / "inbox", "before", [{"text": "sun"}])
    with inbox_sampler(tmp_path / "inbox", estimator):
        write_posts(tmp_path / "inbox", "crawl-1", [{"text": "storm"}, {"text": "sun"}])
        for _ in range(600):
            if estimator.estimate(parse("storm")).sampled_posts:
                break
            time.sleep(0.05)
    assert estimator.estimate(parse("storm")).sampled_posts == 2
    assert list((tmp_path / "history").glob("*.json"))


def test_long_posts_and_expensive_queries_are_limited(tmp_path):
    """A week of posts of a megabyte each, or a thousand conjunctions on all of them, would stop the server."""
    clock = FakeClock()
    estimator = VolumeEstimator(tmp_path, clock)
    estimator.add_posts(lines("rain " * 200_000, title="x" * 100_000, tags=["y" * 100_000] * 1_000))
    estimator.save()
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) < 20_000
    for _ in range(10):
        clock.now += HOUR_S
        estimator.add_posts(lines(*["storm tea milk", "sun"] * 50))
    alternatives = " OR ".join(f'"tea w{number}"' for number in range(200))
    estimate = estimator.estimate(parse(f"storm ({alternatives} OR milk)"))
    assert estimate.matches_per_day == pytest.approx(0.5 * estimate.posts_per_day, rel=0.2)
    assert estimate.sampled_posts < 1_000


@pytest.mark.parametrize("line", ['{"text": "x", "lat": 1%s, "lon": 1}' % ("0" * 400), "[" * 100_000, "7", "{"])
def test_a_line_that_is_not_a_post_is_not_sampled(tmp_path, line):
    estimator = VolumeEstimator(tmp_path, FakeClock())
    estimator.add_posts([line, *lines("storm")])
    assert estimator.estimate(parse("storm")).sampled_posts == 1


def test_a_full_disk_does_not_lose_the_sample(tmp_path, monkeypatch, caplog):
    estimator = VolumeEstimator(tmp_path / "history", FakeClock())
    estimator.add_posts(lines("storm"))

    def fail(file, text):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("tidings.web.volume_estimate.write_atomically", fail)
        estimator.save()
    assert "No space left" in caplog.text
    estimator.save()
    restarted = VolumeEstimator(tmp_path / "history", FakeClock())
    restarted.load()
    assert restarted.estimate(parse("storm")).sampled_posts == 1
