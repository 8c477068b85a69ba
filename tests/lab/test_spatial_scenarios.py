"""Scenarios draw posts of a phase from where and when it says."""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc

from tidings_lab.located_posts import generate_located
from tidings_lab.spatial_scenarios import Crowds, draw_balanced, draw_day_and_night, draw_hot_spot

POSTS = generate_located(5_000, 3)


def positions(table):
    return np.column_stack([table.column("lon"), table.column("lat")])


def rng():
    return np.random.default_rng(4)


def test_a_crowd_writes_its_share_at_one_place_that_moves():
    draw = draw_hot_spot(POSTS, rng(), Crowds(share=0.5, size=50))
    places = []
    for phase in range(3):
        counts = [draw(phase, 2_000) for _ in range(2)]
        texts, frequency = np.unique([str(row) for row in counts[0].to_pylist()], return_counts=True)
        busiest = set(texts[np.argsort(-frequency)[:50]])
        assert 0.45 < np.mean([str(row) in busiest for row in counts[1].to_pylist()]) < 0.6
        center = np.median(positions(counts[0]), axis=0)
        assert np.mean(np.abs(positions(counts[0]) - center).max(axis=1) < 1) > 0.45
        places.append(busiest)
    assert not places[0] & places[1]


def test_posts_of_a_phase_are_of_its_hours():
    draw = draw_day_and_night(POSTS, rng())
    for phase, expected in ((0, range(4)), (5, range(20, 24)), (7, range(4, 8))):
        hours = pc.utf8_slice_codeunits(draw(phase, 500).column("time"), 11, 13).to_pylist()
        assert set(map(int, hours)) <= set(expected)


def test_balanced_posts_do_not_depend_on_the_phase():
    first, second = (positions(draw_balanced(POSTS, rng())(phase, 3_000)) for phase in (0, 5))
    assert np.array_equal(first, second)
    assert abs(first.mean() - positions(POSTS).mean()) < 1
