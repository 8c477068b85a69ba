"""The tag parser finds the hashtags that the analyzer finds, in all columns of a post."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.correlate.definitions import to_tag_sets
from tests.data import real_tweets

from tidings.correlate.partition.subset_counts import MAX_TAGS
from tidings.correlate.tag_parser import TagParser
from tidings.correlate.tag_vocabulary import TagVocabulary
from tidings.errors import InputError
from tidings.text.reference_analyzer import decode_entities, tokenize

texts = st.lists(st.text("ab#_ 1é@.&;", max_size=30) | st.sampled_from(["#A #b #á", "x#no", "http://x.y/#no #Yes", ""]))


def parse_tags(columns: dict, **options) -> list[list[str]]:
    """Return the sorted tags of each post that has any."""
    size = len(next(iter(columns.values())))
    kinds = {"time": pa.int64(), "text": pa.string(), "title": pa.string(), "tags": pa.list_(pa.string())}
    given = {"time": list(range(size)), **columns}
    batch = pa.record_batch({name: pa.array(values, kinds[name]) for name, values in given.items()})
    vocabulary = TagVocabulary()
    posts = vocabulary.renumber_posts(TagParser(**options).parse(batch))
    names = vocabulary.to_arrow().to_pylist()
    return [sorted(names[tag] for tag in post) for post in to_tag_sets(posts.tags, posts.starts)]


def find_hashtags(text: str) -> list[str]:
    terms = [token.term for token in tokenize(decode_entities(text)) if token.term]
    return sorted({term[1:] for term in terms if term.startswith("#")})


@settings(max_examples=200, deadline=None)
@given(texts)
def test_hashtags_are_those_of_the_analyzer(posts):
    expected = [tags for tags in map(find_hashtags, posts) if tags]
    assert parse_tags({"text": posts}) == [tags for tags in expected if len(tags) <= MAX_TAGS]


@pytest.mark.real_data
def test_hashtags_of_real_tweets_are_those_of_the_analyzer():
    posts = real_tweets(3000)
    expected = [tags for tags in map(find_hashtags, posts) if tags]
    assert [tags for tags in parse_tags({"text": posts}) if len(tags) < MAX_TAGS] == [
        tags for tags in expected if len(tags) < MAX_TAGS
    ]


def test_entries_of_the_tags_column_count_like_hashtags():
    given = [["Fire", "fire", "Wild Fire"], None, ["#rain", None, "!"], []]
    assert parse_tags({"tags": given}) == [["fire", "wild_fire"], ["rain"]]
    assert parse_tags({"text": ["#Fire here", "", "#sun"], "tags": [["fire", "x"], None, ["y"]]}) == [
        ["fire", "x"],
        ["sun", "y"],
    ]


def test_tracked_word_counts_as_the_tag_of_its_name():
    assert parse_tags({"text": ["a flood came", "#flood", "two floods #x"]}, tracked=("flood",)) == [
        ["flood"],
        ["flood"],
        ["flood", "x"],
    ]


@pytest.mark.parametrize("word", ["", "the", "two words", "!"])
def test_only_a_single_word_that_is_not_a_stop_word_can_be_tracked(word):
    with pytest.raises(InputError, match="cannot be tracked"):
        TagParser((word,))


def test_first_tags_count_if_there_are_too_many():
    batch = pa.record_batch({"time": [1, 2], "text": [" ".join(f"#t{n}" for n in range(15)), "#t3 #t99"]})
    parsed = TagParser().parse(batch)
    assert parsed.capped == 1
    assert sorted(parsed.names.split()[:MAX_TAGS]) == sorted(b"t%d" % n for n in range(MAX_TAGS))


def test_empty_and_sliced_batches_are_parsed():
    batch = pa.record_batch({"time": [1, 2, 3], "tags": pa.array([["a"], ["b", "c"], ["a", "d"]])})
    parser = TagParser()
    assert (parser.parse(batch.slice(0, 0)).names, len(parser.parse(batch.slice(3)).posts)) == (b"", 0)
    parsed = parser.parse(batch.slice(1))
    assert (parsed.names, parsed.posts.tags.tolist(), parsed.rows.tolist()) == (b"b\nc\na\nd", [0, 1, 2, 3], [0, 1])


def test_post_without_a_time_is_skipped():
    batch = pa.record_batch({"time": pa.array([None, 5], pa.int64()), "text": ["#a", "#b"]})
    parsed = TagParser().parse(batch)
    assert (parsed.posts.times.tolist(), parsed.names, parsed.rows.tolist()) == ([5], b"b", [1])


def test_result_of_a_batch_does_not_depend_on_earlier_batches():
    batch = pa.record_batch({"time": [1, 2], "text": ["#b #a", "#c #a"]})
    used = TagParser()
    used.parse(pa.record_batch({"time": [1], "text": ["#c #z #a"]}))
    assert used.parse(batch).names == TagParser().parse(batch).names == b"b\na\nc"
