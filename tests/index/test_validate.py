"""What is refused before it is stored is what the parser refuses, with its reason; plain queries need no parser."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.generators import STOP_WORDS, WORDS, queries

from tidings.errors import QueryError
from tidings.index import validate
from tidings.query import table as query_table
from tidings.query.parse import parse, region
from tidings.schemas import REGION_TYPE

words = st.sampled_from([*WORDS, *STOP_WORDS, "OR", "NOT", "(", '"', "#", "within:1,2"])
some = st.one_of(queries, st.lists(words, max_size=4).map(" ".join))
sides = st.one_of(st.none(), st.just([1.0, 2.0, 3.0, 4.0]), st.just([3.0, 2.0, 1.0, 4.0]))


def table(pairs):
    texts, regions = zip(*pairs, strict=True) if pairs else ((), ())
    return pa.table({"query": pa.array(texts, pa.string()), "region": pa.array(regions, REGION_TYPE)})


def by_the_parser(pairs):
    found = []
    for row, (text, where) in enumerate(pairs):
        try:
            parse(text, None if where is None else region(*where))
        except QueryError as error:
            found.append((row, str(error)))
    return found


@pytest.mark.parametrize("few", [0, 1_000])
@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(some, sides), max_size=12))
def test_refused_is_what_the_parser_refuses(few, pairs):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(validate, "_FEW", few)
        patch.setattr(validate, "_PIECE", 5)
        assert [(one.row, one.reason) for one in validate.refused(table(pairs))] == by_the_parser(pairs)


def test_of_many_queries_the_plain_ones_do_not_go_through_the_parser(monkeypatch):
    parsed: list[str] = []
    monkeypatch.setattr(query_table, "parse", lambda text, where: parsed.append(text))
    validate.refused(table([(f"storm rain{row}", None) for row in range(validate._FEW)] + [("storm -rain", None)]))
    assert parsed == ["storm -rain"]


def test_how_far_it_is_is_told(monkeypatch):
    monkeypatch.setattr(validate, "_PIECE", 2)
    told: list[int] = []
    validate.refused(table([("storm", None)] * 5), told.append)
    assert told == [2, 4, 5]
