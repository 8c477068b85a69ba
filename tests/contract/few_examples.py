"""A few examples that touch every kernel; run by test_without_jit.py, where each costs a hundred times more."""

from __future__ import annotations

import pytest
from tests.contract.matchers import MATCHERS, expected

from tidings.match.scan import ScanPost

QUERIES = [
    *[
        "cat",
        "cat dog",
        "cat dog",
        "cat OR dog",
        "cat -dog",
        "the",
        '"the white house"',
        "#white_house",
        "東京",
        "café",
    ],
    *[
        "a1 b1 c1 d1 e1 f1",
        "within:0,0,9,9",
        "within:-180,-90,180,90 cat",
        "cat -within:0,0,9,9",
        'rain -"white house"',
    ],
]
POSTS = [
    ScanPost("Cats & dogs http://x.y/?a=b @name #White_House", 3.0, 3.0),
    ScanPost("the white house caf&eacute; 私は東京が好き", 50.0, 50.0),
    ScanPost("a1 b1 c1 d1 e1 f1 cat's rain"),
    ScanPost(""),
    ScanPost("white the house rain CAFE\u0301"),
]


@pytest.mark.parametrize("name", MATCHERS)
def test_no_jit_needed_to_match(name, tmp_path):
    assert MATCHERS[name](tmp_path / "index", QUERIES, POSTS, 3) == expected(QUERIES, POSTS)
