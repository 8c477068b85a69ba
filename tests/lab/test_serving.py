"""The benchmark of serving, tiny: every poll without news is told so, and none of them writes."""

from __future__ import annotations

from tidings.demo.generate import generate_posts
from tidings_lab.bench_serving import Load, measure_serving
from tidings_lab.datasets import Posts
from tidings_lab.thresholds import bars


def test_every_feed_is_polled_in_every_round_and_nothing_is_written():
    posts = Posts(generate_posts(200, 11).select(["id", "text"]), "generated")
    found = measure_serving(posts, Load(feeds=30, connections=3, rounds=2, batches=1), 11, lambda line: None)
    assert [one["statuses"] for one in found["rounds_run"]] == [{"200": 30}, {"304": 30}, {"304": 30}]
    assert not found["wrote"]
    assert found["matches"] > 900
    rate, told, written = bars({"serve": found})
    assert rate.value == found["answers_per_second"] > 0
    assert told.passed
    assert written.passed
