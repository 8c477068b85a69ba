"""A new plan replaces the one in use only if held-out posts confirm that it is better."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tidings.balance.rebalance.global_policy import GlobalSettings
from tidings.balance.rebalance.global_step import evaluate_new_plan
from tidings.balance.rebalance.plan_judge import PlanGain, compare_plans, estimate_gain, split_sample
from tidings.balance.spatial_fit import PostSample, build_workload, spatial_fitter
from tidings.balance.work_model import WorkModel, WorkSample
from tidings.index.builder import create_index, live_conjunctions
from tidings.index.manifest import PlanRecord
from tidings.index.plan_files import cached_spatial_plan
from tidings.index.reader import Index
from tidings.plan.space import SpatialPlan
from tidings.testing.pipeline import subscription_table

MATCHERS, TOWNS, SEEDS, SHIFT_SEEDS, ENOUGH = 4, 30, 50, 10, 10_000
WEIGHTS = 1 / np.arange(1, TOWNS + 1)  # some towns have far more posts than others
CENTRES = np.random.default_rng(5).uniform([-120, 25], [-70, 48], (TOWNS, 2))


def draw_posts(seed: int, count: int, has_shifted: bool = False) -> PostSample:
    """Return posts around the towns; after the shift the large towns are small and the small ones large."""
    rng = np.random.default_rng(seed)
    weights = WEIGHTS[::-1] if has_shifted else WEIGHTS
    town = rng.choice(TOWNS, count, p=weights / weights.sum())
    words = rng.zipf(1.3, (count, 6)) % 400
    texts = [" ".join(f"w{word}" for word in row) for row in words.tolist()]
    return pa.array(texts, pa.large_string()), CENTRES[town] + rng.normal(0, 0.5, (count, 2))


def draw_queries(count: int = 400) -> list[str]:
    """Return queries around the towns, most of them where there are most posts before the shift."""
    rng = np.random.default_rng(1)
    town = np.where(
        np.arange(count) % 4, rng.choice(TOWNS, count, p=WEIGHTS / WEIGHTS.sum()), rng.integers(0, TOWNS, count)
    )
    centres = CENTRES[town] + rng.normal(0, 0.5, (count, 2))
    words = rng.zipf(1.3, count) % 400
    boxes = [f"{lon - 0.5:.3f},{lat - 0.5:.3f},{lon + 0.5:.3f},{lat + 0.5:.3f}" for lon, lat in centres.tolist()]
    return [f"w{word} within:{box}" for word, box in zip(words.tolist(), boxes, strict=True)]


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> Index:
    """An index whose plan was learned from enough posts."""
    fit = spatial_fitter("kdtree", MATCHERS, lambda: draw_posts(999, ENOUGH))
    table, record = subscription_table(draw_queries()), PlanRecord("kdtree", MATCHERS, 7)
    return create_index(tmp_path_factory.mktemp("index") / "index", table, record, fit=fit)[0]


def count_replacements(index: Index, posts: int, has_shifted: bool) -> tuple[int, int]:
    """Return how often an evaluation adopts another plan, and how often that one is worse for very many posts."""
    assert index.manifest.plan is not None
    folder = index.folder
    judges = build_workload(
        index.vocabulary.terms(), live_conjunctions(index), draw_posts(12_345, 3 * ENOUGH, has_shifted)
    )
    old, adopted = cached_spatial_plan(folder / index.manifest.plan.spatial_file), []
    for seed in range(SHIFT_SEEDS if has_shifted else SEEDS):
        sample = draw_posts(seed, posts, has_shifted)
        step = evaluate_new_plan(index, lambda s: spatial_fitter("kdtree", MATCHERS, s), sample, GlobalSettings())
        assert step is not None
        if step.prepared is not None:
            adopted.append(cached_spatial_plan(folder / step.prepared.writer.manifest.plan.spatial_file))
    return len(adopted), sum(compare_plans(judges, old, new).gain < 0 for new in adopted)


@pytest.mark.parametrize("posts", [ENOUGH, 600])
def test_stationary_posts_do_not_replace_a_good_plan_by_a_worse_one(index, posts):
    adopted, worse = count_replacements(index, posts, has_shifted=False)
    assert worse <= 1
    assert adopted <= 2


def test_a_shift_replaces_the_plan_by_a_better_one(index):
    adopted, worse = count_replacements(index, ENOUGH, has_shifted=True)
    assert adopted == SHIFT_SEEDS
    assert worse == 0


def test_held_out_posts_are_not_learned_from():
    posts = pa.array([str(number) for number in range(10)], pa.large_string()), np.arange(20.0).reshape(10, 2)
    learned, held_out = split_sample(posts)
    assert held_out[0].to_pylist() == ["0", "3", "6", "9"]
    assert learned[0].to_pylist() == ["1", "2", "4", "5", "7", "8"]
    assert held_out[1].tolist() == posts[1][::3].tolist()


def test_gain_and_its_error_by_hand():
    """Two matchers, two blocks: the busiest has 6 + 6, then 3 + 6."""
    loads, new_loads = np.array([[6.0, 1.0], [6.0, 1.0]]), np.array([[3.0, 2.0], [6.0, 2.0]])
    gain, error = estimate_gain(loads, new_loads)
    assert gain == pytest.approx(1 - 9 / 12)
    # Without the first block 1 - 6/6 = 0, without the second 1 - 3/6 = 0.5; the mean is 0.25.
    assert error == pytest.approx(np.sqrt(1 / 2 * (0.25**2 + 0.25**2)))


def test_error_of_the_gain_is_that_of_repeated_samples():
    """The jackknife estimates how much the gain varies when posts are drawn again."""
    rng = np.random.default_rng(3)

    def draw() -> tuple[float, float]:
        loads = rng.gamma(2.0, size=(20, 50, 3)).sum(axis=1) * [1.3, 1.0, 1.0]
        return estimate_gain(loads, rng.gamma(2.0, size=(20, 50, 3)).sum(axis=1))

    gains, errors = np.array([draw() for _ in range(400)]).T
    assert np.mean(errors) == pytest.approx(np.std(gains), rel=0.35)


def test_a_gain_is_confirmed_only_beyond_two_standard_errors():
    assert PlanGain(9, 2.0, 1.0, 0.20, 0.05).is_confirmed(0.1)
    assert not PlanGain(9, 2.0, 1.0, 0.20, 0.051).is_confirmed(0.1)
    assert not PlanGain(9, 2.0, 1.0, 0.09, 0.0).is_confirmed(0.1)


def test_blocks_together_have_the_loads_of_all_posts(index):
    """The comparison of a plan with itself has the loads that the work model gives for all posts at once."""
    assert index.manifest.plan is not None
    plan = cached_spatial_plan(index.folder / index.manifest.plan.spatial_file)
    assert isinstance(plan, SpatialPlan)
    workload = build_workload(index.vocabulary.terms(), live_conjunctions(index), draw_posts(1, 1_000))
    judged = compare_plans(workload, plan, plan)
    assert (judged.posts, judged.gain, judged.error) == (1_000, 0.0, 0.0)
    whole = WorkSample.build(workload).estimate_ns(plan, WorkModel()).max() / 1_000
    assert judged.load == judged.new_load == pytest.approx(whole)
