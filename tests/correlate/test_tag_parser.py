"""The parser: tags are what `receive` says hashtags are, wherever a post has them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.correlate.definitions import rows
from tests.data import real_tweets

from tidings.correlate.partition.subset_counts import MAX_TAGS
from tidings.correlate.tag_parser import Parser
from tidings.correlate.tag_vocabulary import Vocabulary
from tidings.errors import InputError
from tidings.text import reference_analyzer

texts = st.lists(st.text("ab#_ 1é@.&;", max_size=30) | st.sampled_from(["#A #b #á", "x#no", "http://x.y/#no #Yes", ""]))


def parsed(columns: dict, **options) -> list[list[str]]:
    """The tags of each post that has any, sorted."""
    size = len(next(iter(columns.values())))
    kinds = {"time": pa.int64(), "text": pa.string(), "title": pa.string(), "tags": pa.list_(pa.string())}
    given = {"time": list(range(size)), **columns}
    batch = pa.record_batch({name: pa.array(values, kinds[name]) for name, values in given.items()})
    vocabulary = Vocabulary()
    posts = vocabulary.numbered(Parser(**options).parse(batch))
    names = vocabulary.column().to_pylist()
    return [sorted(names[tag] for tag in post) for post in rows(posts.tags, posts.starts)]


def by_definition(text: str) -> list[str]:
    terms = [token.term for token in reference_analyzer.tokens(reference_analyzer.decode_entities(text)) if token.term]
    return sorted({term[1:] for term in terms if term.startswith("#")})


@settings(max_examples=200, deadline=None)
@given(texts)
def test_hashtags_are_those_of_the_matching(said):
    expected = [tags for tags in map(by_definition, said) if tags]
    assert parsed({"text": said}) == [tags for tags in expected if len(tags) <= MAX_TAGS]


def test_hashtags_of_real_tweets_are_those_of_the_matching():
    said = real_tweets(3000)
    expected = [tags for tags in map(by_definition, said) if tags]
    assert [tags for tags in parsed({"text": said}) if len(tags) < MAX_TAGS] == [
        tags for tags in expected if len(tags) < MAX_TAGS
    ]


def test_tags_that_posts_came_with_count_like_hashtags():
    given = [["Fire", "fire", "Wild Fire"], None, ["#rain", None, "!"], []]
    assert parsed({"tags": given}) == [["fire", "wild_fire"], ["rain"]]
    assert parsed({"text": ["#Fire here", "", "#sun"], "tags": [["fire", "x"], None, ["y"]]}) == [
        ["fire", "x"],
        ["sun", "y"],
    ]


def test_tracked_words_count_as_the_tag_of_their_name():
    assert parsed({"text": ["a flood came", "#flood", "two floods #x"]}, tracked=("flood",)) == [
        ["flood"],
        ["flood"],
        ["flood", "x"],
    ]


@pytest.mark.parametrize("word", ["", "the", "two words", "!"])
def test_what_is_no_word_cannot_be_tracked(word):
    with pytest.raises(InputError, match="cannot be tracked"):
        Parser((word,))


def test_of_very_many_tags_the_first_count():
    batch = pa.record_batch({"time": [1, 2], "text": [" ".join(f"#t{n}" for n in range(15)), "#t3 #t99"]})
    found = Parser().parse(batch)
    assert found.capped == 1
    assert sorted(found.names.split()[:MAX_TAGS]) == sorted(b"t%d" % n for n in range(MAX_TAGS))


def test_no_rows_and_slices_of_batches_are_parsed_like_any():
    batch = pa.record_batch({"time": [1, 2, 3], "tags": pa.array([["a"], ["b", "c"], ["a", "d"]])})
    parser = Parser()
    assert (parser.parse(batch.slice(0, 0)).names, len(parser.parse(batch.slice(3)).posts)) == (b"", 0)
    found = parser.parse(batch.slice(1))
    assert (found.names, found.posts.tags.tolist(), found.rows.tolist()) == (b"b\nc\na\nd", [0, 1, 2, 3], [0, 1])


def test_a_post_without_a_time_is_left_out():
    batch = pa.record_batch({"time": pa.array([None, 5], pa.int64()), "text": ["#a", "#b"]})
    found = Parser().parse(batch)
    assert (found.posts.times.tolist(), found.names, found.rows.tolist()) == ([5], b"b", [1])


def test_the_same_batch_gives_the_same_numbers_whatever_came_before():
    batch = pa.record_batch({"time": [1, 2], "text": ["#b #a", "#c #a"]})
    used = Parser()
    used.parse(pa.record_batch({"time": [1], "text": ["#c #z #a"]}))
    assert used.parse(batch).names == Parser().parse(batch).names == b"b\na\nc"
