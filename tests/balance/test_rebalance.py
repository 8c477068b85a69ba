"""Cell selection and the rebalancing policies: by hand, against exhaustive search, and with a given time."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.balance.rebalance import cell_selection
from tidings.balance.rebalance.cell_selection import (
    SELECTORS,
    get_selector,
    select_backtracking,
    select_exact,
    select_greedy,
    select_largest,
    select_random,
)
from tidings.balance.rebalance.global_policy import (
    EvaluatePlan,
    GlobalSettings,
    GlobalState,
    MoveSlice,
    next_step,
)
from tidings.balance.rebalance.local_policy import CellLoad, Join, LocalSettings, Move, SplitByText, TextHalf, decide
from tidings.errors import InputError
from tidings.plan.load_model import LoadModel

cells = st.lists(st.tuples(st.integers(1, 50), st.integers(1, 20)), min_size=1, max_size=9)
MODEL = LoadModel(check_ns=1, post_ns=10, insert_ns=0, delete_ns=0)
SETTINGS = LocalSettings(sigma=1.2, top_cells=2, model=MODEL)


def arrays(pairs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([load for load, _ in pairs], np.float64), np.array([size for _, size in pairs], np.int64)


def test_greedy_selection_equals_an_example_computed_by_hand():
    # Size per load: a 0.1, b 0.2, c 0.5, d 0.57, e 2. Target 100. a (40) is taken; b (50) is taken, 90. c (20) would
    # reach it: 4 + 10 + 10 = 24. d (7) is taken, 97. e (5) would reach it: 4 + 10 + 4 + 10 = 28. So a, b, c.
    loads, sizes = arrays([(40, 4), (50, 10), (20, 10), (7, 4), (5, 10)])
    assert select_greedy(loads, sizes, 100.0).tolist() == [0, 1, 2]
    assert select_exact(loads, sizes, 100.0).tolist() == [0, 1, 2]
    assert select_largest(loads, sizes, 100.0).tolist() == [0, 1, 2, 4]  # the largest first: b, c, e, then a


def select_slowly(loads: np.ndarray, sizes: np.ndarray, wanted: float) -> list[int]:
    """The greedy algorithm of the paper, cell by cell."""
    order = sorted(range(len(loads)), key=lambda cell: (sizes[cell] / max(loads[cell], 1e-300), sizes[cell], cell))
    taken: list[int] = []
    candidates: list[list[int]] = []
    for cell in order:
        if float(sum(loads[other] for other in taken)) + loads[cell] < wanted:
            taken = [*taken, cell]
        else:
            candidates.append([*taken, cell])
    return sorted(min(candidates, key=lambda cells: sizes[cells].sum(), default=order))


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 20)), max_size=30), st.integers(1, 400))
def test_greedy_selection_equals_the_paper(pairs, wanted):
    loads, sizes = arrays(pairs)
    assert select_greedy(loads, sizes, float(wanted)).tolist() == select_slowly(loads, sizes, float(wanted))


generators = st.integers(0, 10_000).map(lambda seed: np.random.default_rng(seed))


@settings(max_examples=60, deadline=None)
@given(generators, st.integers(1, 120), st.sampled_from([1.1, 1.5, 3.0]), st.sampled_from([0.05, 0.2, 0.6]))
def test_backtracking_selection_is_nearly_exact(rng, count, tail, share):
    loads, sizes = rng.pareto(tail, count) * 100, (rng.pareto(tail, count) * 20 + 1).astype(np.int64)
    sizes = np.minimum(sizes, 5_000)
    wanted = share * float(loads.sum())
    greedy, going_back, exact = (
        int(sizes[choose(loads, sizes, wanted)].sum()) for choose in (select_greedy, select_backtracking, select_exact)
    )
    assert exact <= going_back <= greedy
    assert going_back <= 1.05 * exact


def test_backtracking_finds_the_optimum_where_greedy_does_not():
    # Size per load: a 0.1, b 0.5, c 0.6. Target 100. a (60) and b (30) are taken, 90; c (80) would reach it: 6 + 15 +
    # 48 = 69. Without b, a and c reach it too: 54.
    loads, sizes = arrays([(60, 6), (30, 15), (80, 48)])
    assert select_greedy(loads, sizes, 100.0).tolist() == [0, 1, 2]
    assert select_backtracking(loads, sizes, 100.0).tolist() == select_exact(loads, sizes, 100.0).tolist() == [0, 2]


@settings(max_examples=150, deadline=None)
@given(cells, st.integers(1, 200))
def test_exact_selection_is_optimal_and_all_selections_reach_the_target(pairs, wanted):
    loads, sizes = arrays(pairs)
    ways = itertools.chain.from_iterable(itertools.combinations(range(len(pairs)), n) for n in range(len(pairs) + 1))
    best = min((sizes[list(way)].sum() for way in ways if loads[list(way)].sum() >= wanted), default=None)
    for name, choose in SELECTORS.items():
        chosen = choose(loads, sizes, float(wanted), 3)
        assert len(set(chosen.tolist())) == len(chosen), name
        if best is None:
            assert len(chosen) == len(pairs), name
        else:
            assert loads[chosen].sum() >= wanted, name
            assert sizes[chosen].sum() >= best, name
    if best is not None:
        assert sizes[select_exact(loads, sizes, float(wanted))].sum() == best
        assert (
            sizes[select_backtracking(loads, sizes, float(wanted))].sum() == best
        )  # all combinations of nine cells are tried


def test_random_selection_depends_on_its_seed():
    loads, sizes = arrays([(n + 1, n + 1) for n in range(30)])
    assert select_random(loads, sizes, 100.0, 5).tolist() == select_random(loads, sizes, 100.0, 5).tolist()
    assert select_random(loads, sizes, 100.0, 5).tolist() != select_random(loads, sizes, 100.0, 6).tolist()


def test_too_large_table_and_unknown_selector_are_rejected(monkeypatch):
    monkeypatch.setattr(cell_selection, "MAX_TABLE_BITS", 100)
    with pytest.raises(InputError, match="Use gr\\+"):
        select_exact(*arrays([(10, 90), (20, 80)]), 25.0)
    with pytest.raises(InputError, match=r"gr, gr\+, dp, si, ra"):
        get_selector("astrology")


def test_balanced_matchers_are_not_changed():
    assert decide([[CellLoad(0, 10, 12, 9)], [CellLoad(1, 10, 10, 9)]], SETTINGS) == []
    assert decide([[CellLoad(0, 10, 12, 9)]], SETTINGS) == []
    assert decide([[], []], SETTINGS) == []


def test_one_idle_matcher_among_even_ones_is_no_reason_to_move_cells():
    even = [[CellLoad(4 * matcher + n, 10, 5, 9) for n in range(4)] for matcher in range(9)]
    assert decide([*even, [CellLoad(99, 10, 10, 9)]], SETTINGS) == []  # 200 at most, 190 on average, 100 at least
    assert decide([*even[:1], [CellLoad(99, 10, 10, 9)]], SETTINGS) != []


def test_work_of_a_cell_is_its_load_if_known():
    slow = [CellLoad(0, 10, 10, 50, work=900.0), CellLoad(1, 10, 10, 50, work=300.0)]
    assert decide([slow, [CellLoad(2, 99, 99, 9, work=600.0)]], SETTINGS) == [Move(1, 0, 1, 50)]


def test_half_the_difference_is_moved_with_as_few_bytes_as_possible():
    heavy = [CellLoad(0, 10, 10, 50), CellLoad(1, 10, 5, 5), CellLoad(2, 10, 5, 90), CellLoad(3, 10, 6, 6)]
    # Loads 260 and 60: 100 must move. Cells 1 and 3 have 110 in 11 bytes, cell 0 has 100 in 50 bytes.
    assert decide([heavy, [CellLoad(4, 10, 6, 5)]], SETTINGS) == [Move(1, 0, 1, 5), Move(3, 0, 1, 6)]


def test_cell_with_all_the_load_does_not_move():
    assert decide([[CellLoad(0, 100, 100, 9)], []], SETTINGS) == []


def test_cell_is_split_by_text_if_that_lowers_the_load():
    halves = (TextHalf(60, 50, 500), TextHalf(50, 50, 400))
    cell = CellLoad(0, 100, 100, 900, halves=halves)  # 10,000; the halves have 3,000 and 2,500
    assert decide([[cell], [CellLoad(1, 10, 20, 9)]], SETTINGS) == [SplitByText(0, 1, 0, 1, 400)]
    useless = (TextHalf(100, 50, 500), TextHalf(100, 50, 400))
    same = CellLoad(0, 100, 100, 900, halves=useless)
    assert decide([[same], [CellLoad(1, 10, 20, 9)]], SETTINGS) == []


def test_cell_of_two_matchers_is_joined_if_that_lowers_the_load():
    rest, theirs = CellLoad(1, 100, 60, 9), CellLoad(0, 90, 10, 100, is_text=True)
    # Separate: 100·30 + 90·10 + 10·190 = 5,800; joined, if the 90 are among the 100: 100·40 + 10·100 = 5,000
    ours = CellLoad(0, 100, 30, 300, is_text=True, joined_posts=100)
    assert decide([[ours, rest], [theirs]], SETTINGS) == [Join(0, 0, 1, 300)]
    # If all posts differ: 190·40 + 10·190 = 9,500
    others = CellLoad(0, 100, 30, 300, is_text=True, joined_posts=190)
    assert not any(isinstance(intent, Join) for intent in decide([[others, rest], [theirs]], SETTINGS))


def test_new_plan_is_evaluated_on_schedule_with_enough_posts():
    rules = GlobalSettings(interval_s=100, min_posts=50)
    assert next_step(GlobalState(evaluated_at=0, posts=50), 99, rules) is None
    assert next_step(GlobalState(evaluated_at=0, posts=49), 100, rules) is None
    assert next_step(GlobalState(evaluated_at=0, posts=50), 100, rules) == EvaluatePlan()


def test_old_subscriptions_move_in_a_bounded_number_of_slices():
    rules = GlobalSettings(max_slices=20, min_slice=100)
    state = GlobalState(subscriptions=10_001, has_two_plans=True)
    assert next_step(state, 1000, rules) == MoveSlice(501)
    assert next_step(replace(state, subscriptions=50), 1000, rules) == MoveSlice(100)
    assert next_step(replace(state, has_two_plans=False), 1000, rules) is None
