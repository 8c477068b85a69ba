"""The serving benchmark in a tiny size: polls without news get 304 and do not write."""

from __future__ import annotations

import pytest

from tidings.demo.generate import generate_posts
from tidings_lab.bench_serving import ServingLoad, measure_serving
from tidings_lab.datasets import Posts
from tidings_lab.thresholds import check_thresholds


@pytest.mark.long
def test_every_feed_is_polled_in_every_round_and_nothing_is_written():
    posts = Posts(generate_posts(200, 11).select(["id", "text"]), "generated")
    found = measure_serving(posts, ServingLoad(feeds=30, connections=3, rounds=2, batches=1), 11, lambda line: None)
    assert [row["statuses"] for row in found["rounds_run"]] == [{"200": 30}, {"304": 30}, {"304": 30}]
    assert not found["wrote"]
    assert found["matches"] > 900
    rate, not_modified, written = check_thresholds("serve", found)
    assert rate.value == found["answers_per_second"] > 0
    assert not_modified.is_met
    assert written.is_met
