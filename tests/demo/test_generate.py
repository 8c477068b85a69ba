"""Generated posts and queries are reproducible, varied, and match each other."""

from __future__ import annotations

import functools
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


def test_posts_are_reproducible_by_their_seed(posts: pa.Table) -> None:
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
def test_any_number_of_posts_can_be_generated(count: int) -> None:
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


def test_about_a_fifth_of_the_posts_have_a_position(posts: pa.Table) -> None:
    assert 0.18 < 1 - posts["lat"].null_count / len(posts) < 0.22
    assert posts["lat"].is_null().equals(posts["lon"].is_null())
    assert pc.max(pc.abs(posts["lat"])).as_py() < 90
    assert pc.max(pc.abs(posts["lon"])).as_py() < 180


def test_posts_contain_difficult_text(posts: pa.Table) -> None:
    for piece in ("#", "@", "https://", "&amp;", "&#39;", "é", "⚽", "今日", "مطر", "Straße"):
        assert pc.any(pc.match_substring(posts["text"], piece)).as_py(), piece
    assert len(set(posts["lang"].to_pylist())) > 10


def test_words_have_a_long_tail(posts: pa.Table) -> None:
    counts = Counter(" ".join(posts["text"].to_pylist()).lower().split())
    once = sum(1 for count in counts.values() if count == 1)
    assert counts.most_common(1)[0][1] > 5_000
    assert once > 1_000


# Words that a post must contain to match the query of that name.
QUERY_WORDS = {
    "storm watch": ["storm"], "heavy rain": ["heavy rain"], "goals": ["striker", "#football"],
    "earthquakes": ["earthquake", "magnitude"], "rates": ["central bank", "rates"], "commuters": ["delays", "train"],
    "London calling": ["police"], "near Amsterdam": ["fire"], "moon landing": ["rocket", "moon"],
    "data leaks": ["leaks"], "free coffee": ["free", "coffee"], "elections": ["#election", "mayor"],
    "good boys": ["lost dog", "found"],
}  # fmt: skip


def test_every_demo_query_has_its_words() -> None:
    assert QUERY_WORDS.keys() == DEMO_QUERIES.keys()
    assert len(DEMO_QUERIES) >= 12


@pytest.mark.parametrize("name", DEMO_QUERIES)
def test_every_demo_query_has_matches(posts: pa.Table, name: str) -> None:
    parse(DEMO_QUERIES[name])
    text = pc.utf8_lower(posts["text"])
    found = [pc.match_substring(text, word) for word in QUERY_WORDS[name]]
    if "within:" in DEMO_QUERIES[name]:
        west, south, east, north = map(float, DEMO_QUERIES[name].split("within:")[1].split(","))
        found += [pc.greater_equal(posts["lon"], west), pc.less_equal(posts["lon"], east)]
        found += [pc.greater_equal(posts["lat"], south), pc.less_equal(posts["lat"], north)]
    assert pc.any(functools.reduce(pc.and_kleene, found)).as_py()


def test_queries_are_reproducible_by_their_seed() -> None:
    queries = generate_queries(500, SEED)
    assert queries == generate_queries(500, SEED)
    assert queries != generate_queries(500, SEED + 1)
    assert generate_queries(0, SEED) == []


def test_every_query_is_valid() -> None:
    for query in generate_queries(3_000, SEED):
        parse(query)


def test_queries_use_all_features_of_the_language() -> None:
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
