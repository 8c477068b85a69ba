"""Every spatial partitioner gives exactly the brute-force matches after the merge step: none lost, none extra.

Posts with and without a position meet subscriptions with a region, with words only and with a region only, in a new
index, after changes (delta segments and tombstones) and after segments were merged.
"""

from __future__ import annotations

from functools import cache, partial

import numpy as np
import pytest
from tests.contract.matchers import create_changed_index, match_by_space, spatial_plan_fitter

from tidings.balance.spatial_registry import SPATIAL_PARTITIONERS
from tidings.index.manifest import PlanRecord
from tidings.index.plan_files import cached_spatial_plan
from tidings.matching.brute_force import RawPost
from tidings.testing.contract import town_workload
from tidings.testing.oracles import Matches, expected_matches
from tidings.testing.pipeline import match_index

MATCHERS, BATCH_POSTS = 5, 70
STATES = {"new": None, "after changes": False, "after a merge": True}


@cache
def make_world() -> tuple[list[str], list[RawPost]]:
    """Return subscriptions of all kinds, and posts of which a third has no position."""
    rng = np.random.default_rng(9)
    queries, located = town_workload(seed=3, count=240)
    words = [f"w{number}" for number in range(1, 30)]
    words_only = [*words, *(f"{one} {two}" for one in words[:5] for two in words[:5]), "w1 OR w2 OR w7", "w1 -w2"]
    regions = [
        "within:-75,40,-73,41.5",
        "near:25.8,-80.2,60 -w1",
        "w3 OR within:-67,18,-65,19",
        "-w1 within:-90,0,0,90",
    ]
    posts = [RawPost(post.text) if rng.random() < 1 / 3 else post for post in located]
    mixed = [*queries, *words_only, *regions]
    return [mixed[number] for number in rng.permutation(len(mixed)).tolist()], posts


@cache
def find_expected() -> Matches:
    return expected_matches(*make_world())


def test_the_world_has_matches_of_all_kinds():
    queries, posts = make_world()
    kinds = {
        (posts[post].lat is None, "within" in queries[query] or "near" in queries[query])
        for query, post in find_expected()
    }
    assert kinds == {(True, False), (False, False), (False, True), (True, True)}, (
        "w3 OR within: matches without position"
    )
    assert len(find_expected()) > 1000


@pytest.mark.parametrize("name", SPATIAL_PARTITIONERS)
@pytest.mark.parametrize("state", STATES)
def test_every_match_is_found_once(tmp_path, name, state):
    match = partial(match_by_space, algorithm=name, matchers=MATCHERS, is_merged=STATES[state])
    found, expected = match(tmp_path / "index", *make_world(), BATCH_POSTS), find_expected()
    assert set(expected) - set(found) == set(), "lost"
    assert set(found) - set(expected) == set(), "extra"
    assert len(found) == len(set(found)), "repeated"


@pytest.mark.parametrize("name", ["hybrid", "kdt", "metric"])
def test_the_merge_step_has_matches_to_remove(tmp_path, name):
    queries, posts = make_world()
    index = create_changed_index(
        tmp_path / "index", queries, PlanRecord(name, MATCHERS, 7), spatial_plan_fitter(name, posts, MATCHERS)
    )
    plan = cached_spatial_plan(index.folder / index.manifest.plan.spatial_file)
    assert any(area.is_shared for area in plan.areas)
    found = match_index(index, posts, BATCH_POSTS, deduplicate=False)
    assert set(found) == set(find_expected())
    assert len(found) > len(set(found))
