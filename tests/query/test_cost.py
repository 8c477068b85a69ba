"""The cost of a query follows what it takes to compile and to match it."""

from __future__ import annotations

import pytest

from tidings.errors import QueryError
from tidings.query.cost import query_cost
from tidings.store.accounts import Quotas
from tidings.testing.hostile_queries import SHAPES, ten_pairs


@pytest.mark.parametrize(
    ("query", "cost"),
    [
        ("storm", 1),
        ("storm rain wind snow hail", 1),
        ('"heavy rain" -drizzle', 1),
        ("storm within:0,0,9,9", 1),
        ("storm OR rain OR wind", 3),
        ("storm -a1 -b1 -c1 -d1 -e1 -f1 -g1 -h1", 3),
        ("(storm OR gale) (warning OR alert)", 4),
        ("storm (" + " OR ".join(f"city{n}" for n in range(20)) + ")", 20),
    ],
)
def test_the_cost_of_usual_queries_is_small(query: str, cost: int) -> None:
    assert query_cost(query) == cost


@pytest.mark.parametrize("shape", SHAPES)
def test_a_thousand_hostile_queries_exceed_the_default_quota(shape: str) -> None:
    quotas = Quotas()
    assert query_cost(SHAPES[shape](1)) * quotas.subscriptions > quotas.query_cost


def test_a_large_or_costs_what_is_indexed_not_what_it_multiplies_to() -> None:
    assert 20 <= query_cost(ten_pairs(3)) <= 60


@pytest.mark.parametrize(
    "query",
    [
        " ".join(f"w{number}" for number in range(700)),
        "storm " + " ".join(f"#w{number}" for number in range(600)),
        "storm " * 650,
        "storm " + "the " * 1_000,
        " ".join("(" * 18 + f"w{number}" + ")" * 18 for number in range(95)),
    ],
    ids=["words", "tags", "same word", "stop words", "parentheses"],
)
def test_a_long_query_costs_what_it_takes_to_read_it(query: str) -> None:
    """Each of these is one entry, but takes a thousand times as long to compile as one word."""
    assert query_cost(query) > 200


def test_an_invalid_query_has_no_cost() -> None:
    with pytest.raises(QueryError):
        query_cost("storm OR")
