"""The profile of posts counts them and draws a random sample in the same pass."""

from __future__ import annotations

import numpy as np
import pytest

from tidings.batch import input_profile
from tidings.batch.input_profile import estimate_text_bytes, profile_posts

ROWS = [(str(n), f"post {n}", float(n % 90)) for n in range(2_000)] + [("x", None, 1.0), ("y", "far", 91.0)]


@pytest.fixture(scope="module")
def posts(spark):
    return spark.createDataFrame(ROWS, "id string, text string, lat double").selectExpr("*", "lat AS lon")


def test_small_input_is_sampled_completely_without_rejected_posts(posts):
    profile = profile_posts(posts, input_bytes=1)
    assert profile.posts == len(ROWS)
    assert profile.rejected == 2
    texts, positions = profile.sample
    assert sorted(texts.to_pylist()) == sorted(text for _, text, _ in ROWS[:2_000])
    rows = np.array([int(text.split()[1]) for text in texts.to_pylist()])
    assert np.array_equal(positions, np.column_stack([rows % 90, rows % 90]).astype(float))


def test_large_input_is_sampled_evenly_and_repeatably(posts):
    size = 4 * input_profile._SAMPLE_BYTES
    first, second = (profile_posts(posts, size).sample[0].to_pylist() for _ in range(2))
    assert first == second
    assert 400 < len(first) < 600
    rows = np.array([int(text.split()[1]) for text in first])
    assert 900 < rows.mean() < 1_100
    assert rows.max() > 1_950


def test_compressed_files_count_as_several_times_their_size(tmp_path):
    paths = [tmp_path / name for name in ("a.jsonl", "b.jsonl.gz", "c.parquet")]
    for path in paths:
        path.write_bytes(bytes(10))
    assert [estimate_text_bytes([path]) for path in paths] == [10, 80, 30]
    assert estimate_text_bytes(paths) == 120


def test_profile_of_no_posts_has_no_sample(spark):
    profile = profile_posts(spark.createDataFrame([], "text string"), 0)
    assert (profile.posts, profile.reasons, len(profile.sample[0])) == (0, {}, 0)
    assert profile.sample[1].shape == (0, 2)
