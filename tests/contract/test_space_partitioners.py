"""Every space partitioner: each place and word has a worker; the same one every time, everywhere, and after saving."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contract.matchers import space_learner, table
from tests.generators import post_lists, query_lists

from tidings.balance.spatial_registry import SPACE_PARTITIONERS, fit_space
from tidings.errors import InputError
from tidings.index.compile import GrowingVocabulary, compile_subscriptions
from tidings.matching.brute_force import ScanPost
from tidings.plan.space import SpacePlan, load_space_plan, save_space_plan
from tidings.plan.words import MAX_MATCHERS

every_partitioner = pytest.mark.parametrize("name", SPACE_PARTITIONERS)
workers_ = st.sampled_from([1, 2, 5, 70])
TERMS = [b"cat", b"dog", b"unknown", b"rain"]


def learned(name: str, queries: list[str], posts: list[ScanPost], workers: int) -> SpacePlan:
    vocabulary = GrowingVocabulary()
    compiled = compile_subscriptions(table(queries), vocabulary)
    return space_learner(name, posts, workers)(vocabulary.added.terms(), compiled.conjunctions)


def told(plan: SpacePlan) -> tuple[object, ...]:
    rows, workers = plan.workers_of(TERMS)
    lines = (plan.lines.lons.tolist(), plan.lines.lats.tolist())
    return (
        plan.algorithm,
        plan.workers,
        plan.posts,
        lines,
        plan.area_of_cell.tolist(),
        workers[rows].tolist(),
        plan.model,
    )


def many(seed: int = 0, count: int = 600) -> tuple[list[str], list[ScanPost]]:
    """Posts around three towns; subscriptions of words that are rare in one of them and frequent in another."""
    rng = np.random.default_rng(seed)
    towns = np.array([[40.7, -74.0], [25.8, -80.2], [18.4, -66.1]])
    place = towns[rng.integers(0, 3, count)] + rng.normal(0, 0.3, (count, 2))
    words = rng.zipf(1.4, (count, 5)) % 300
    posts = [ScanPost(" ".join(f"w{w}" for w in said), *at) for said, at in zip(words, place.tolist(), strict=True)]
    queries = [
        f"w{words[n, 0]} within:{lon - 0.2},{lat - 0.2},{lon + 0.2},{lat + 0.2}" for n, (lat, lon) in enumerate(place)
    ]
    return queries, posts


@every_partitioner
@settings(max_examples=20, deadline=None)
@given(queries=query_lists, posts=post_lists, workers=workers_)
def test_every_place_and_word_has_a_worker_in_range(name, queries, posts, workers):
    plan = learned(name, queries, posts, workers)
    rows, table_ = plan.workers_of(TERMS)
    assert (plan.algorithm, plan.workers) == (name, workers)
    assert len(plan.area_of_cell) == plan.lines.columns * plan.lines.rows
    assert (plan.area_of_cell < plan.nowhere).all()
    assert (table_[rows] < workers).all()
    assert table_[rows].shape == (len(plan.areas), len(TERMS) + 1)


@every_partitioner
def test_a_plan_comes_back_from_its_file_as_it_was(tmp_path, name):
    plan = learned(name, *many(), 5)
    save_space_plan(plan, tmp_path / "it.plan")
    again = load_space_plan(tmp_path / "it.plan")
    assert told(again) == told(plan)
    assert again.areas == plan.areas


@every_partitioner
def test_learning_again_gives_the_same_plan(name):
    assert told(learned(name, *many(), 4)) == told(learned(name, *many(), 4))


def test_another_process_gives_the_same_plans():
    code = (
        "from tests.contract.test_space_partitioners import *\n"
        "print([told(learned(name, *many(), 3)) for name in SPACE_PARTITIONERS])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=600)
    assert said.stdout.strip() == str([told(learned(name, *many(), 3)) for name in SPACE_PARTITIONERS])


@every_partitioner
def test_no_worker_of_some_is_left_without_anything(name):
    plan = learned(name, *many(count=2000), 4)
    assert {worker for area in plan.areas[:-1] for worker in area.workers} == {0, 1, 2, 3}


@every_partitioner
def test_boxes_touch_the_area_of_every_point_in_them(name):
    plan = learned(name, *many(), 4)
    rng = np.random.default_rng(1)
    corners = rng.uniform([-85, 15], [-60, 45], (50, 2, 2))
    boxes = np.column_stack([corners.min(axis=1), corners.max(axis=1)])
    area, which = plan.areas_of(boxes, np.arange(50))
    touched = set(zip(which.tolist(), area.tolist(), strict=True))
    for number, (west, south, east, north) in enumerate(boxes.tolist()):
        points = np.concatenate([rng.uniform([west, south], [east, north], (20, 2)), [[west, south], [east, north]]])
        cells = plan.lines.row(points[:, 1]) * plan.lines.columns + plan.lines.column(points[:, 0])
        assert {(number, one) for one in plan.area_of_cell[cells].tolist()} <= touched


@every_partitioner
@pytest.mark.parametrize("workers", [0, -1, MAX_MATCHERS + 1])
def test_an_impossible_number_of_workers_is_refused(name, workers):
    with pytest.raises(InputError, match="number of matchers"):
        learned(name, ["cat"], [ScanPost("cat", 1, 1)], workers)


def test_an_unknown_partitioner_is_refused_with_those_that_are_known():
    with pytest.raises(InputError, match="hybrid, kdt, grid"):
        fit_space("astrology", None, 3)  # type: ignore[arg-type]


def test_what_is_no_plan_is_refused_by_name(tmp_path):
    path = tmp_path / "it.plan"
    with pytest.raises(InputError, match="no such plan"):
        load_space_plan(path)
    path.write_bytes(b"PAR1")
    with pytest.raises(InputError, match="not a whole plan"):
        load_space_plan(path)
    save_space_plan(learned("kdtree", *many(), 3), path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="not a whole plan"):
        load_space_plan(path)
