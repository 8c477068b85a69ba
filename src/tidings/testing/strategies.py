"""Hypothesis strategies for posts and queries: few words, so that they often match, and all of the query language."""

from __future__ import annotations

import random
from typing import Any

from tidings.errors import MissingExtraError

try:
    from hypothesis import strategies as st
except ModuleNotFoundError as error:
    raise MissingExtraError("Hypothesis", "hypothesis") from error

from tidings.matching.brute_force import RawPost

WORDS = ["cat", "dog", "fish", "bird", "cats", "rain", "white", "house", "café", "東京", "кошка", "don't", "7", "state"]
STOP_WORDS = ["the", "of", "and"]
UNSEEN = ["zebra", "quokka", "x9x9", "😀", "lynx"]
TAGS = ["#cat", "#dog", "#white_house", "#東京"]
BOXES = [
    (0.0, 0.0, 10.0, 10.0),
    (5.0, -5.0, 20.0, 5.0),
    (-180.0, -90.0, 180.0, 90.0),
    (179.5, 89.5, 180.0, 90.0),
    (-180.0, -90.0, -179.0, -89.0),
    (3.0, 3.0, 3.0, 3.0),
    (-30.0, -30.0, 40.0, 40.0),
    (0.0, 3.0, 5.0, 90.0),
    (9.999, -90.0, 5.0, 90.0),
    (170.0, -90.0, -170.0, 5.0),
    (180.0, -5.0, -180.0, 89.5),
]
CIRCLES = [
    (0.0, 0.0, 600.0),
    (0.0, 179.9, 300.0),
    (89.0, 50.0, 400.0),
    (-90.0, 0.0, 56.0),
    (5.0, 3.0, 0.001),
    (0.0, 0.0, 20_015.0),
    (10.0, 10.0, 1112.0),
]
LONGITUDES = [-180.0, -179.5, -7.0, 0.0, 3.0, 5.0, 9.999, 10.0, 20.0, 180.0]
LATITUDES = [-90.0, -89.5, -5.0, 0.0, 3.0, 5.0, 10.0, 10.001, 89.5, 90.0]
SEPARATORS = [" ", " ", " ", " ", ", ", " @bob ", "\x1f", " &amp; ", " http://x.y/cat ", "-", "#", "\n"]

words = st.sampled_from(WORDS)
_literals = st.one_of(
    words,
    words,
    st.sampled_from(TAGS),
    st.sampled_from(STOP_WORDS),
    st.lists(st.sampled_from([*WORDS, *STOP_WORDS]), min_size=1, max_size=4).map(lambda terms: f'"{" ".join(terms)}"'),
    st.sampled_from(BOXES).map(lambda box: "within:" + ",".join(map(str, box))),
    st.sampled_from(CIRCLES).map(lambda circle: "near:" + ",".join(map(str, circle))),
)


def _combine(parts: Any) -> Any:
    return st.one_of(
        parts.map("-{}".format),
        st.lists(parts, min_size=2, max_size=3).map(lambda operands: f"({' '.join(operands)})"),
        st.lists(parts, min_size=2, max_size=3).map(lambda operands: f"({' OR '.join(operands)})"),
    )


trees = st.recursive(_literals, _combine, max_leaves=8)
plain_queries = st.lists(st.sampled_from([*WORDS, *STOP_WORDS, *UNSEEN]), min_size=1, max_size=4).map(" ".join)
long_queries = st.lists(words, min_size=5, max_size=12).map(" ".join)
rich_queries = st.lists(trees, min_size=1, max_size=3).map(" ".join)
_parts = st.deferred(lambda: st.one_of(words, words, _literals, trees))
_groups = st.lists(_parts, min_size=2, max_size=3).map(lambda parts: f"({' OR '.join(parts)})")
product_queries = st.lists(st.one_of(_groups, _groups, _groups, _parts), min_size=4, max_size=6).map(" ".join)
invalid_queries = st.sampled_from(["", "the", "-cat", "cat -cat", '"cat', "(cat", "within:9,9,1,1", "cat OR -dog"])
queries = st.one_of(plain_queries, plain_queries, rich_queries, product_queries, long_queries, invalid_queries)
query_lists = st.one_of(
    st.lists(queries, max_size=25),
    st.lists(queries, min_size=1, max_size=4).flatmap(lambda few: st.lists(st.sampled_from(few), max_size=25)),
)

positions = st.one_of(
    st.just((None, None)),
    st.tuples(st.sampled_from(LATITUDES), st.sampled_from(LONGITUDES)),
    st.sampled_from([(None, 3.0), (3.0, None), (float("nan"), 3.0)]),
)
_tokens = st.sampled_from([*WORDS, *WORDS, *TAGS, *STOP_WORDS, *UNSEEN])
_pieces = st.tuples(_tokens, st.sampled_from(SEPARATORS)).map("".join)
_short = st.lists(_pieces, max_size=12).map("".join)
_repeated = st.lists(_pieces, min_size=1, max_size=4).flatmap(
    lambda few: st.lists(st.sampled_from(few), min_size=4, max_size=16).map("".join)
)
_long = st.integers(0, 1 << 30).map(lambda seed: long_text(seed, 400))
texts = st.one_of(_short, _short, _repeated, _repeated, _long, st.just(""))
posts = st.tuples(texts, positions).map(lambda post: RawPost(post[0], *post[1]))
post_lists = st.lists(posts, max_size=12)


def long_text(seed: int, length: int) -> str:
    """Return a text of this many words, most of them in no subscription."""
    rng = random.Random(seed)
    common = [*WORDS, *TAGS, *STOP_WORDS]
    return " ".join(rng.choice(common) if rng.random() < 0.05 else f"w{rng.randrange(999)}" for _ in range(length))
