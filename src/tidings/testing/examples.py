"""Queries and posts that reach every branch of the matching kernels."""

from __future__ import annotations

from tidings.matching.brute_force import RawPost

_WORDS = ["a1", "b1", "c1", "d1", "e1", "f1", "g1"]
QUERIES = [
    # an anchor, a second term, two more inline, the rest in a residual
    *(" ".join(_WORDS[:size]) for size in range(1, 8)),
    *["cat", "cat dog", "dogs CAT", "cat dog cat", "cat OR dog", "cat OR dog OR cat dog", "cat -dog", "the", "the cat"],
    *["#white_house", "#cat", "東京", '"東京 cat"', "café", "(cat OR fish) (dog OR bird) -rain", "cat -(dog fish)"],
    *['"the white house"', '"white house"', '"house white"', 'rain -"white house"', '"cat cat"'],
    *['"cat dog" "dog fish"', "within:0,0,9,9", "within:-180,-90,180,90", "within:-40,-40,40,40", "within:3,3,3,3"],
    *["within:9,9,10,10 -cat", "within:0.5,0.5,0.7,0.7", "within:-0.5,-0.7,0.5,0.7", "within:0,0,9,9 within:5,5,20,20"],
    *["within:0,0,9,9 OR lynx", "cat within:0,0,9,9", "cat -within:0,0,9,9", "within:0,0,9,9 -within:5,5,6,6"],
    # more conjunctions than literals: entries with a condition
    "(cat OR rain) (dog OR white) (fish OR house) (cat OR dog) (bird OR fish) (unseen OR cat OR white)",
    'rain (cat OR white) (dog OR "white house") (fish OR "the white house") (bird OR house) (unseen OR the OR white)',
    "(within:0,0,9,9 OR cat) (within:3,3,3,3 OR dog OR white) (-bird OR cat) (-within:5,5,6,6 OR fish) (cat OR house)",
    "within:-40,-40,40,40 (cat OR white) (-dog OR fish) (house OR -white) (-lynx OR bird) (cats OR house)",
    "(cat OR house) -(dog fish) -(cat dog unseen) -(bird fish) -(white within:0,0,9,9)",
    *['"white house" within:0,0,60,60', "within:179,89,180,90", "within:0,0,9,9 cat dog"],
]
_TEXTS = [
    # each word missing once, then none
    *(" ".join(_WORDS[:missing] + _WORDS[missing + 1 :]) for missing in range(8)),
    *["Cats & dogs http://x.y/?a=b @name #White_House", "the white house caf&eacute; 私は東京が好き", "東京 cat", ""],
    *["white the house rain", "white\x1fhouse rain", "white unseen house", "white rain house"],
    *["house white house white", "cat cat", "cat unseen cat dog", "cat dog fish", "cat dog unseen dog fish"],
    *["the #cat", "lynx", "cat fish", "bird fish"],
]
_POSITIONS = [
    *[(0.6, 0.6), (-0.6, -0.4), (3.0, 3.0), (9.0, 0.0), (9.0, 9.0)],
    *[(5.5, 5.5), (90.0, 180.0), (-90.0, -180.0), (39.0, -40.0), (70.0, 100.0)],
]
POSTS = [
    *map(RawPost, _TEXTS),
    *(RawPost(text, *position) for position in _POSITIONS for text in ("", "cats", "the white house")),
]
