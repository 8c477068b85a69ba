"""The posts and queries that the project makes itself: always the same, varied enough, and about the same things."""

from __future__ import annotations

import time
from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tidings.demo.generate import CHUNK_POSTS, DEMO_QUERIES, POST_SCHEMA, generate_posts, generate_queries
from tidings.query.parse import parse

SEED = 7


@pytest.fixture(scope="module")
def posts() -> pa.Table:
    return generate_posts(20_000, SEED)


def test_the_same_seed_gives_the_same_posts_and_another_seed_others(posts: pa.Table) -> None:
    assert generate_posts(20_000, SEED).equals(posts)
    assert not generate_posts(20_000, SEED + 1)["text"].equals(posts["text"])


def test_the_posts_of_a_seed_do_not_change_between_versions() -> None:
    first = generate_posts(1, 1).to_pylist()[0]
    assert (first["id"], first["time"].isoformat()) == (1, "2026-01-01T00:00:00.010000+00:00")
    assert (
        first["text"]
        == "a qualifier is stopped by rain in Berlin new balls please today money #tennis https://news.example/fennenen/63192"
    )


@pytest.mark.parametrize("count", [0, 1, CHUNK_POSTS + 1])
def test_any_number_of_posts_has_that_number_and_the_schema(count: int) -> None:
    table = generate_posts(count, SEED)
    assert table.num_rows == count
    assert table.schema == POST_SCHEMA
    assert table["id"].to_pylist() == list(range(1, count + 1))


def test_chunks_differ_from_each_other() -> None:
    texts = generate_posts(2 * CHUNK_POSTS, SEED)["text"]
    assert not texts.slice(0, 100).equals(texts.slice(CHUNK_POSTS, 100))


def test_every_post_has_text_time_author_and_language(posts: pa.Table) -> None:
    for name in ("text", "time", "author", "lang"):
        assert posts[name].null_count == 0
    assert pc.min(pc.utf8_length(posts["text"])).as_py() > 5
    assert pc.all(pc.greater(posts["time"][1:], posts["time"][:-1])).as_py()


def test_about_a_fifth_of_the_posts_tell_where_they_are(posts: pa.Table) -> None:
    assert 0.18 < 1 - posts["lat"].null_count / len(posts) < 0.22
    assert posts["lat"].is_null().equals(posts["lon"].is_null())
    assert pc.max(pc.abs(posts["lat"])).as_py() < 90
    assert pc.max(pc.abs(posts["lon"])).as_py() < 180


def test_the_posts_hold_what_makes_real_ones_hard(posts: pa.Table) -> None:
    for piece in ("#", "@", "https://", "&amp;", "&#39;", "é", "⚽", "今日", "مطر", "Straße"):
        assert pc.any(pc.match_substring(posts["text"], piece)).as_py(), piece
    assert len(set(posts["lang"].to_pylist())) > 10


def test_words_follow_a_long_tail(posts: pa.Table) -> None:
    counts = Counter(" ".join(posts["text"].to_pylist()).lower().split())
    once = sum(1 for count in counts.values() if count == 1)
    assert counts.most_common(1)[0][1] > 5_000
    assert once > 1_000


# A word, or several, that a post found by the query of that name must contain.
SIGNS = {
    "storm watch": ["storm"], "heavy rain": ["heavy rain"], "goals": ["striker", "#football"],
    "earthquakes": ["earthquake", "magnitude"], "rates": ["central bank", "rates"], "commuters": ["delays", "train"],
    "London calling": ["police"], "near Amsterdam": ["fire"], "moon landing": ["rocket", "moon"],
    "data leaks": ["leaks"], "free coffee": ["free", "coffee"], "elections": ["#election", "mayor"],
    "good boys": ["lost dog", "found"],
}  # fmt: skip


def test_every_demo_query_has_its_signs() -> None:
    assert SIGNS.keys() == DEMO_QUERIES.keys()
    assert len(DEMO_QUERIES) >= 12


@pytest.mark.parametrize("name", DEMO_QUERIES)
def test_every_demo_query_finds_something(posts: pa.Table, name: str) -> None:
    parse(DEMO_QUERIES[name])
    text = pc.utf8_lower(posts["text"])
    found = [pc.match_substring(text, sign) for sign in SIGNS[name]]
    if "within:" in DEMO_QUERIES[name]:
        west, south, east, north = map(float, DEMO_QUERIES[name].split("within:")[1].split(","))
        found += [pc.greater_equal(posts["lon"], west), pc.less_equal(posts["lon"], east)]
        found += [pc.greater_equal(posts["lat"], south), pc.less_equal(posts["lat"], north)]
    together = found[0]
    for one in found[1:]:
        together = pc.and_kleene(together, one)
    assert pc.any(together).as_py()


def test_the_same_seed_gives_the_same_queries() -> None:
    queries = generate_queries(500, SEED)
    assert queries == generate_queries(500, SEED)
    assert queries != generate_queries(500, SEED + 1)
    assert generate_queries(0, SEED) == []


def test_every_query_is_accepted() -> None:
    for query in generate_queries(3_000, SEED):
        parse(query)


def test_the_queries_use_the_whole_language() -> None:
    queries = generate_queries(2_000, SEED)
    for piece in (" OR ", "NOT ", " -", '"', "#", "within:", "("):
        assert any(piece in query for query in queries), piece
    plain = sum(query.replace(" ", "").isalpha() for query in queries)
    assert 0.6 < plain / len(queries) < 0.85


@pytest.mark.long
def test_a_million_posts_take_seconds() -> None:
    start = time.process_time()
    assert generate_posts(1_000_000, SEED).num_rows == 1_000_000
    assert time.process_time() - start < 20
