"""Cell selection and the rebalancing policies: by hand, against exhaustive search, and with a given time."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.balance.rebalance import cell_selection
from tidings.balance.rebalance.cell_load import scale_to_seconds
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
from tidings.balance.rebalance.local_policy import (
    CellLoad,
    Intent,
    Join,
    LocalSettings,
    Move,
    SplitByText,
    TextPart,
    Transfer,
    decide,
    plan_transfers,
)
from tidings.errors import InputError

cells = st.lists(st.tuples(st.integers(1, 50), st.integers(1, 20)), min_size=1, max_size=9)
SETTINGS = LocalSettings(sigma=1.2, top_cells=2)


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


def decide_alone(matchers: list[list[CellLoad]], settings: LocalSettings = SETTINGS) -> list[Intent]:
    """Decide by the loads of the cells alone, without measured seconds."""
    transfers = plan_transfers([sum(cell.load for cell in cells) for cells in matchers], settings)
    return decide(dict(enumerate(matchers)), transfers, settings)


def test_balanced_matchers_are_not_changed():
    assert decide_alone([[CellLoad(0, 10, 12, 9)], [CellLoad(1, 10, 10, 9)]]) == []
    assert decide_alone([[CellLoad(0, 10, 12, 9)]]) == []
    assert decide_alone([[], []]) == []


def test_one_idle_matcher_among_even_ones_is_no_reason_to_move_cells():
    even = [[CellLoad(4 * matcher + n, 10, 5, 9) for n in range(4)] for matcher in range(9)]
    assert decide_alone([*even, [CellLoad(99, 10, 10, 9)]]) == []  # 200 at most, 190 on average, 100 at least
    assert decide_alone([*even[:1], [CellLoad(99, 10, 10, 9)]]) != []


def test_those_far_above_the_mean_give_to_those_below_it():
    # Mean 40. Matcher 0 has 60 too much, matcher 3 has 16. The idlest takes 40 of the 60, the next one 20, then 16:
    # it has 30 and could take 10 to reach the mean, but nobody takes less than a fourth of it.
    rules = LocalSettings(sigma=1.2, min_gain=0.25)
    assert plan_transfers([100, 4, 0, 56], rules) == [(0, 2, 40), (0, 1, 20), (3, 1, 16)]
    assert plan_transfers([100, 10, 0, 50], rules) == [(0, 2, 40), (0, 1, 20)], "50 is not far above 40"
    assert plan_transfers([100, 0], rules) == [(0, 1, 50)]
    assert plan_transfers([100, 4, 0, 56], LocalSettings(max_transfers=1)) == [(0, 2, 40)]


def test_few_receivers_get_much_instead_of_many_a_little():
    # Mean 20. Each of eight matchers has 5 below the mean. A fourth of the mean is 5, too; half of it is 10.
    loads = [60, *[15] * 8]
    assert plan_transfers(loads, LocalSettings(min_gain=0.25)) == [(0, number, 5) for number in range(1, 9)]
    assert plan_transfers(loads, LocalSettings(min_gain=0.5)) == [(0, number, 10) for number in range(1, 5)]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 1000), min_size=1, max_size=12))
def test_transfers_lead_to_the_mean(loads):
    after, rules = list(loads), LocalSettings(max_transfers=100)
    transfers = plan_transfers(loads, rules)
    for source, target, load in transfers:
        after[source], after[target] = after[source] - load, after[target] + load
    mean = sum(loads) / len(loads)
    is_worth = max(loads) > rules.sigma * min(loads) and max(loads) > (1 + rules.min_gain) * mean
    assert bool(transfers) == is_worth
    if transfers:
        assert max(after) <= (1 + rules.min_gain) * mean * (1 + 1e-9)


def test_work_of_a_cell_is_its_load_if_known():
    slow = [CellLoad(0, 10, 10, 50, work=900.0), CellLoad(1, 10, 10, 50, work=300.0)]
    assert decide_alone([slow, [CellLoad(2, 99, 99, 9, work=600.0)]]) == [Move(1, 0, 1, 50)]


def test_half_the_difference_is_moved_with_as_few_bytes_as_possible():
    heavy = [CellLoad(0, 10, 10, 50), CellLoad(1, 10, 5, 5), CellLoad(2, 10, 5, 90), CellLoad(3, 10, 6, 6)]
    # Loads 260 and 60: 100 must move. Cells 1 and 3 have 110 in 11 bytes, cell 0 has 100 in 50 bytes.
    assert decide_alone([heavy, [CellLoad(4, 10, 6, 5)]]) == [Move(1, 0, 1, 5), Move(3, 0, 1, 6)]


def test_several_matchers_receive_in_one_step():
    # Mean 40. Matcher 0 has 120, in cells of 10 and of 20; it gives 40 to each of the other two.
    cells = [CellLoad(n, 1, 20, 10) for n in range(4)] + [CellLoad(4 + n, 1, 10, 1) for n in range(4)]
    intents = decide_alone([cells, [], []])
    assert [(intent.cell, intent.target) for intent in intents] == [(4, 1), (5, 1), (6, 1), (7, 1), (0, 2), (1, 2)]


def test_cell_with_all_the_load_does_not_move():
    assert decide_alone([[CellLoad(0, 100, 100, 9)], []]) == []


def test_larger_cell_moves_if_nothing_else_brings_the_loads_closer_together():
    # Mean 33. A cell of 50 is more than the receiver should get, but nearer to it than nothing. Then 17 are left to
    # give, and the other cell would only swap the roles.
    cells = [CellLoad(0, 1, 50, 9), CellLoad(1, 1, 50, 9)]
    assert decide_alone([cells, [], []]) == [Move(0, 0, 1, 9)]


def test_selection_leaves_out_a_cell_that_is_too_much():
    # 100 must move. With all of `ra`'s cells 170 would; without the cell of 80 it is 90.
    settings = LocalSettings(selector="si")
    cells = [CellLoad(0, 1, 90, 50), CellLoad(1, 1, 80, 40), CellLoad(2, 1, 30, 1)]
    assert decide_alone([cells, []], settings) == [Move(0, 0, 1, 50)]


def test_cell_is_split_by_text_if_that_lowers_the_load():
    halves = (TextPart(3_000, 500, (b"a",)), TextPart(2_500, 400, (b"b",)))
    cell = CellLoad(0, 100, 100, 900, halves=halves)  # 10,000
    assert decide_alone([[cell], [CellLoad(1, 10, 20, 9)]]) == [SplitByText(0, 0, 1, 400, (b"b",))]
    useless = (TextPart(5_000, 500, (b"a",)), TextPart(5_000, 400, (b"b",)))
    same = CellLoad(0, 100, 100, 900, halves=useless)
    assert decide_alone([[same], [CellLoad(1, 10, 20, 9)]]) == []


def test_part_of_a_cell_moves_as_a_split():
    parts = [CellLoad(0, 100, 50, 500, work=5_000, terms=(b"a",)), CellLoad(0, 100, 40, 400, work=4_000, terms=(b"b",))]
    assert decide_alone([parts, [CellLoad(1, 10, 10, 9)]]) == [SplitByText(0, 0, 1, 400, (b"b",))]


def test_cell_of_two_matchers_is_joined_if_that_lowers_the_load():
    rest, theirs = CellLoad(1, 100, 60, 9), CellLoad(0, 90, 10, 100, is_text=True)
    ours = CellLoad(0, 100, 30, 300, is_text=True, joined_load=3_500)  # separate: 3,000 and 900
    assert decide_alone([[ours, rest], [theirs]]) == [Join(0, 0, 1, 300)]
    others = CellLoad(0, 100, 30, 300, is_text=True, joined_load=3_900)
    assert not any(isinstance(intent, Join) for intent in decide_alone([[others, rest], [theirs]]))


def test_measured_seconds_decide_who_gives():
    # By the model matcher 0 has more load, but matcher 1 takes longer.
    cells = [[CellLoad(0, 10, 10, 9), CellLoad(1, 10, 90, 9)], [CellLoad(2, 10, 10, 9), CellLoad(3, 10, 20, 9)]]
    scaled = scale_to_seconds(dict(enumerate(cells)), (1.0, 3.0))
    assert [sum(cell.load for cell in own) for own in scaled.values()] == [1.0, 3.0]
    transfers = plan_transfers((1.0, 3.0), SETTINGS)
    assert transfers == [Transfer(1, 0, 1.0)]
    assert decide(scaled, transfers, SETTINGS) == [Move(2, 1, 0, 9)]


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
