"""Samples of posts are uniform and repeatable, wherever the posts are."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tidings.errors import InputError
from tidings.spark import sample
from tidings.spark.sample import draw_posts, sample_random_posts
from tidings.spark.stages import _sample_posts

POSTS, COUNT, SEEDS = 4_000, 400, 12


@pytest.fixture(scope="module")
def numbered_posts(spark):
    return spark.range(POSTS, numPartitions=4).selectExpr(
        "CAST(id AS string) AS text", "CAST(id % 90 AS double) AS lat", "CAST(id % 180 AS double) AS lon"
    )


def check_is_uniform(samples: list[list[int]], posts: int) -> None:
    """Check that each twentieth of the posts, the last one too, has its share within five standard deviations."""
    share = len(samples[0]) * len(samples) / 20
    counts = np.histogram(np.concatenate(samples), 20, (0, posts))[0]
    assert (np.abs(counts - share) < 5 * np.sqrt(share)).all(), counts.tolist()


@pytest.mark.parametrize("sorted_posts", [sample._SORTED_POSTS, 0], ids=["read once", "read twice"])
def test_every_post_has_the_same_chance(numbered_posts, sorted_posts, monkeypatch):
    monkeypatch.setattr(sample, "_SORTED_POSTS", sorted_posts)
    samples = []
    for seed in range(SEEDS):
        texts, positions = sample_random_posts(numbered_posts, COUNT, seed)
        samples.append([int(text) for text in texts.to_pylist()])
        assert len(set(samples[-1])) == COUNT
        assert positions.tolist() == [[number % 180, number % 90] for number in samples[-1]]
    check_is_uniform(samples, POSTS)
    assert samples[0] != samples[1]
    assert sample_random_posts(numbered_posts, COUNT, 0)[0].to_pylist() == [str(number) for number in samples[0]]


def test_a_sample_of_fewer_posts_has_them_all(numbered_posts, monkeypatch):
    for sorted_posts in (sample._SORTED_POSTS, 0):
        monkeypatch.setattr(sample, "_SORTED_POSTS", sorted_posts)
        texts, _ = sample_random_posts(numbered_posts.limit(50), COUNT)
        assert sorted(map(int, texts.to_pylist())) == list(range(50))


def test_a_stream_cannot_be_sampled_before_it_runs(spark):
    stream = spark.readStream.format("rate").load().selectExpr("CAST(value AS string) AS text")
    with pytest.raises(InputError, match="cannot be sampled"):
        sample_random_posts(stream, 5)


def test_posts_drawn_in_memory_are_uniform_too():
    posts = pa.array([str(number) for number in range(POSTS)], pa.large_string()), np.zeros((POSTS, 2))
    drawn = [[int(text) for text in draw_posts(posts, COUNT, seed)[0].to_pylist()] for seed in range(SEEDS)]
    assert all(rows == sorted(set(rows)) for rows in drawn)
    check_is_uniform(drawn, POSTS)
    assert draw_posts(posts, POSTS, 0) is posts


def test_every_post_of_a_batch_has_the_same_chance_and_small_batches_too():
    """200 of 10,000 posts: 4 of 200, and one post in 50 batches of one post."""
    drawn = []
    for batch in range(400):
        texts = pa.array([f"{number} {batch}" for number in range(200)])
        rows = pa.record_batch({"text": texts})
        sampled, positions = _sample_posts(rows, np.arange(400.0).reshape(200, 2), 200)
        drawn.append([int(text.split()[0]) for text in sampled.to_pylist()])
        assert positions[:, 0].tolist() == [2.0 * number for number in drawn[-1]]
    assert {len(rows) for rows in drawn} == {4}
    check_is_uniform(drawn, 200)
    single = [pa.record_batch({"text": pa.array([f"post {number}"])}) for number in range(2_000)]
    assert 15 <= sum(len(_sample_posts(rows, np.zeros((1, 2)), 200)[0]) for rows in single) <= 70
    assert len(_sample_posts(rows, np.zeros((200, 2)), 10_000)[0]) == 200
