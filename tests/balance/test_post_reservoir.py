"""The sample of recent posts: uniform over its window, bounded, and the same after a restart."""

from __future__ import annotations

import stat

import numpy as np
import pyarrow as pa
import pytest

from tidings.balance.post_reservoir import PANES, PostReservoir, draw_smallest_keys

WINDOW_S = 600.0
PANE_S = WINDOW_S / PANES


def make_posts(first: int, count: int) -> tuple[pa.Array, np.ndarray]:
    numbers = np.arange(first, first + count)
    texts = pa.array([str(number) for number in numbers.tolist()], pa.large_string())
    return texts, np.column_stack([numbers, -numbers]).astype(float)


def numbers_of(reservoir: PostReservoir) -> np.ndarray:
    texts, positions = reservoir.posts()
    numbers = np.array([int(text) for text in texts.to_pylist()], np.int64)
    assert positions.tolist() == [[number, -number] for number in numbers.tolist()]
    return numbers


def fill(
    reservoir: PostReservoir, batches: int, per_batch: int = 100, sampled: int | None = None, start: int = 0
) -> None:
    """Add batches of numbered posts, ten per pane."""
    rng = np.random.default_rng(start)
    for number in range(start, start + batches):
        texts, positions = make_posts(number * per_batch, per_batch)
        rows = np.sort(rng.permutation(per_batch)[:sampled])
        reservoir.add((texts.take(rows), positions[rows]), per_batch, number * PANE_S / 10)


def test_few_posts_are_all_kept():
    reservoir = PostReservoir(window_s=WINDOW_S, pane_posts=1_000)
    fill(reservoir, 5)
    assert reservoir.count == reservoir.seen == 500
    assert sorted(numbers_of(reservoir).tolist()) == list(range(500))


@pytest.mark.parametrize("sampled", [100, 30], ids=["all posts are offered", "a part of the posts is offered"])
def test_every_post_of_the_window_is_equally_likely_and_older_ones_are_gone(sampled):
    """A hundred batches in ten panes; the window has the last six panes, 6,000 posts."""
    counts = np.zeros(10_000)
    for seed in range(60):
        reservoir = PostReservoir(window_s=WINDOW_S, pane_posts=200, seed=seed)
        fill(reservoir, 100, sampled=sampled)
        assert reservoir.seen == 6_000
        assert 800 < reservoir.count <= 6 * 200
        counts[numbers_of(reservoir)] += 1
    assert counts[:4_000].sum() == 0
    by_batch = counts[4_000:].reshape(60, 100).sum(axis=1)
    expected = by_batch.mean()
    chi_square = float(((by_batch - expected) ** 2 / expected).sum())
    assert chi_square < 2 * 59  # the draws of a fixed window vary less than those of a Poisson process


def test_uneven_panes_are_sampled_at_one_rate():
    """A quiet pane and a busy one with ten times the posts: the busy one has ten times the share."""
    shares = []
    for seed in range(20):
        reservoir = PostReservoir(window_s=WINDOW_S, pane_posts=500, seed=seed)
        reservoir.add(make_posts(0, 1_000), 1_000, 0.0)
        reservoir.add(make_posts(1_000, 10_000), 10_000, PANE_S)
        shares.append(float(np.mean(numbers_of(reservoir) < 1_000)))
    assert np.mean(shares) == pytest.approx(1 / 11, abs=0.01)


def test_a_quiet_stream_keeps_a_pane_until_it_is_full():
    reservoir = PostReservoir(window_s=WINDOW_S, pane_posts=500)
    for number in range(100):
        reservoir.add(make_posts(number * 10, 10), 10, number * WINDOW_S)
    assert reservoir.seen == reservoir.count == 1_000


def test_a_burst_that_was_hardly_sampled_leaves_the_least_number():
    reservoir = PostReservoir(window_s=WINDOW_S, pane_posts=500)
    reservoir.add(make_posts(0, 1_000), 1_000, 0.0)
    reservoir.add(make_posts(1_000, 100), 100_000, PANE_S)
    assert reservoir.count == 500


def test_long_texts_are_cut_and_large_panes_bounded():
    reservoir = PostReservoir(window_s=WINDOW_S, pane_posts=10_000)
    texts = pa.array(["ü" * 100_000] * 3_000, pa.large_string())
    reservoir.add((texts, np.full((3_000, 2), np.nan)), 3_000, 0.0)
    kept, positions = reservoir.posts()
    assert kept[0].as_py() == "ü" * 4_096
    assert kept.nbytes < 9 << 20
    assert 900 < len(kept) == len(positions) < 1_100


def test_the_sample_survives_a_restart_in_a_private_file(tmp_path):
    whole = PostReservoir(tmp_path / "a.parquet", WINDOW_S, 200)
    fill(whole, 40)
    first = PostReservoir(tmp_path / "b.parquet", WINDOW_S, 200)
    fill(first, 25)
    first.save()
    assert stat.S_IMODE((tmp_path / "b.parquet").stat().st_mode) == 0o600
    second = PostReservoir(tmp_path / "b.parquet", WINDOW_S, 200)
    fill(second, 15, start=25)
    assert numbers_of(second).tolist() == numbers_of(whole).tolist()
    assert [path.name for path in tmp_path.iterdir()] == ["b.parquet"]


def test_a_damaged_file_is_an_empty_sample(tmp_path):
    file = tmp_path / "posts.parquet"
    reservoir = PostReservoir(file, WINDOW_S, 200)
    fill(reservoir, 25)
    reservoir.save()
    content, numbers = file.read_bytes(), sorted(numbers_of(reservoir).tolist())
    for damaged in (b"", content[: len(content) // 2], content[:-1]):
        file.write_bytes(damaged)
        assert PostReservoir(file, WINDOW_S, 200).count == 0
    empty = 0
    for place in range(0, len(content), len(content) // 40):
        file.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        texts, _ = PostReservoir(file, WINDOW_S, 200).posts()
        assert {int(text) for text in texts.to_pylist()} <= set(numbers)
        empty += not len(texts)
    assert empty > 20


def test_a_failed_save_keeps_the_old_file(tmp_path, monkeypatch):
    def fail(*arguments, **options):
        raise OSError(28, "No space left on device")

    reservoir = PostReservoir(tmp_path / "posts.parquet", WINDOW_S, 200)
    fill(reservoir, 5)
    reservoir.save()
    content = (tmp_path / "posts.parquet").read_bytes()
    fill(reservoir, 5, start=5)
    monkeypatch.setattr("tidings.balance.post_reservoir.pq.write_table", fail)
    with pytest.raises(OSError, match="No space"):
        reservoir.save()
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [content]


def test_smallest_keys_are_distributed_like_those_of_all_posts():
    drawn = np.sort([draw_smallest_keys(np.random.default_rng(seed), 3, 50) for seed in range(3_000)], axis=1)
    direct = np.sort(np.random.default_rng(1).random((3_000, 50)), axis=1)[:, :3]
    assert np.allclose(drawn.mean(axis=0), direct.mean(axis=0), rtol=0.06)
    assert np.allclose(drawn.std(axis=0), direct.std(axis=0), rtol=0.08)
