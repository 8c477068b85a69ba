"""`find_invalid` reports what the parser reports; simple queries are not parsed."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.errors import QueryError
from tidings.index import validate
from tidings.query import table as query_table
from tidings.query.cost import query_cost
from tidings.query.geo.region import make_rectangle
from tidings.schemas import REGION_TYPE
from tidings.testing.strategies import STOP_WORDS, WORDS, queries

words = st.sampled_from([*WORDS, *STOP_WORDS, "rain " * 9, "OR", "NOT", "(", '"', "#", "within:1,2"])
query_texts = st.one_of(queries, st.lists(words, max_size=4).map(" ".join))
sides = st.one_of(st.none(), st.just([1.0, 2.0, 3.0, 4.0]), st.just([3.0, 2.0, 1.0, 4.0]))


def table(pairs):
    texts, regions = zip(*pairs, strict=True) if pairs else ((), ())
    return pa.table({"query": pa.array(texts, pa.string()), "region": pa.array(regions, REGION_TYPE)})


def parse_pairs(pairs):
    """Return the errors of the parser, and the cost of each row."""
    errors, costs = [], []
    for row, (text, where) in enumerate(pairs):
        try:
            costs.append(query_cost(text, None if where is None else make_rectangle(*where)))
        except QueryError as error:
            errors.append((row, str(error)))
            costs.append(1)
    return errors, costs


@pytest.mark.parametrize("parser_only_rows", [0, 1_000])
@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(query_texts, sides), max_size=12))
def test_find_invalid_agrees_with_the_parser(parser_only_rows, pairs):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(validate, "_PARSER_ONLY_ROWS", parser_only_rows)
        patch.setattr(validate, "_CHUNK_ROWS", 5)
        found = validate.find_invalid(table(pairs))
    invalid, costs = found
    assert ([(row.row, row.reason) for row in invalid], costs.tolist()) == parse_pairs(pairs)


def test_simple_queries_of_a_large_table_are_not_parsed(monkeypatch):
    parsed: list[str] = []
    monkeypatch.setattr(query_table, "parse_entries", lambda text, where: parsed.append(text) or ())
    simple = [(f"storm rain{row}", None) for row in range(validate._PARSER_ONLY_ROWS)]
    validate.find_invalid(table([*simple, ("storm -rain", None)]))
    assert parsed == ["storm -rain"]


def test_progress_is_reported(monkeypatch):
    monkeypatch.setattr(validate, "_CHUNK_ROWS", 2)
    progress: list[int] = []
    validate.find_invalid(table([("storm", None)] * 5), progress.append)
    assert progress == [2, 4, 5]
