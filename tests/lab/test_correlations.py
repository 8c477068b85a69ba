"""The experiment on set correlations in a tiny size, its formulas, and its thresholds."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

import tidings_lab
from tidings.demo.generate import generate_posts
from tidings_lab.datasets import Posts
from tidings_lab.measurements import correlations
from tidings_lab.tagged_posts import TaggedTable, generate_tagged, load_tagged, replay
from tidings_lab.thresholds import check_thresholds

FILE = Path(tidings_lab.__file__).parent / "experiments" / "10-correlations.toml"


@pytest.fixture(scope="module")
def measured_steps():
    body = tomllib.loads(FILE.read_text("utf-8"))
    parameters = {**body["full"], **body["tiny"], "tagged": 2_000}
    posts = Posts(generate_posts(10, 1).select(["id", "text"]), "generated")
    return parameters, list(correlations.measure(posts, parameters, 7))


@pytest.mark.long
def test_every_step_yields_rows(measured_steps):
    parameters, found = measured_steps
    assert len(found) == correlations.steps(parameters)
    assert all(rows for _, rows in found)
    choices = [row for _, rows in found for row in rows if row["kind"] == "choice"]
    assert {row["algorithm"] for row in choices} == set(parameters["algorithms"])
    assert all(row["communication"] >= 1 and 0 <= row["gini"] < 1 and row["coverage"] <= 1 for row in choices)


@pytest.mark.long
def test_loads_of_an_evaluation_add_up_to_one(measured_steps):
    _, found = measured_steps
    visited_at = [row for _, rows in found for row in rows if row["kind"] == "time"]
    assert visited_at
    assert all(sum(row["loads"]) == pytest.approx(1, abs=0.01) for row in visited_at)


def test_expected_communication_is_the_formula_of_section_5_2():
    # v = 4 tags, m = 2 per post: C(2, 2) / C(4, 2) = 1/6; n = 2 posts over k = 2 partitions: 2 · (1 − 1/6)
    assert correlations.expected_communication(4, 2, 2, 2) == pytest.approx(2 * (1 - 1 / 6))


def test_giant_component_share_is_that_of_erdos_and_renyi():
    assert correlations.mean_degree(3, 4) == 2  # three edges among four nodes: n·p = 4 · 3 / C(4, 2)
    assert correlations.giant_component_share(0.5) == pytest.approx(0, abs=1e-9)
    assert correlations.giant_component_share(2) == pytest.approx(0.7968, abs=1e-4)


def test_tagged_posts_are_deterministic_and_replayed_at_a_rate():
    assert generate_tagged(500, 3).equals(generate_tagged(500, 3))
    posts = replay(TaggedTable(generate_tagged(100, 3), "generated").parse(), 10)
    assert len(load_tagged(50, 1)) == 50
    assert posts.times[-1] - posts.times[0] == 9_900_000


def test_missed_threshold_is_named():
    row = {"catch_up": False, "communication": 1.0, "gini": 0.01, "coverage": 0.99, "mean_error": 0.02}
    compared = [{**row, "algorithm": name} for name in ("ds+scl", "ds", "scc", "scl", "sci")]
    compared[0] |= {"communication": 1.2}
    part = {"partitions": 8, "posts_per_second": 250_000, "compared": compared}
    missed = [item.name for item in check_thresholds("correlations", part) if not item.is_met]
    assert missed == ["communication of `ds+scl` / `ds`"]
