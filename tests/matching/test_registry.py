"""The matcher of a worker is chosen by name; all matchers find the same."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tidings.errors import InputError
from tidings.index.builder import apply_changes, create_index
from tidings.index.manifest import PlanRecord
from tidings.matching.registry import MATCHERS, matcher_opener
from tidings.matching.segment_matcher import SegmentMatcher
from tidings.matching.trie import TrieMatcher
from tidings.spark.worker_state import IndexRef, LoadedIndex
from tidings.testing.pipeline import subscription_table

CLASSES = {"kernel": SegmentMatcher, "trie": TrieMatcher}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("matchers") / "index"
    queries = ["storm -calm", "rain OR hail", '"heavy rain"', "snow", "storm rain"]
    index, _ = create_index(folder, subscription_table(queries), PlanRecord("hash", 1, 7))
    apply_changes(index, subscription_table(["hail storm"], [9]), pa.array([3]))
    return folder


@pytest.mark.parametrize("name", MATCHERS)
def test_a_worker_uses_the_matcher_that_its_index_reference_names(folder, name):
    worker = LoadedIndex(IndexRef(str(folder), 2, matcher=name))
    texts = ["heavy rain", "storm", "snow", "calm hail storm storm", "rain heavy"]
    posts = pa.record_batch([pa.array(range(5)), pa.array(texts)], ["id", "text"])
    analyzed, positions = worker.analyze(posts)
    found = {
        (post, subscription)
        for hits in worker.match(0, analyzed, positions)
        for post, subscription in zip(hits.posts.to_pylist(), hits.ids.to_pylist(), strict=True)
    }
    assert found == {(0, 1), (0, 2), (1, 0), (3, 1), (3, 9), (4, 1)}
    assert {type(matcher) for _, matcher in worker._matchers_of(0)} == {CLASSES[name]}


def test_an_unknown_matcher_is_an_error_that_lists_the_known_ones(folder):
    worker = LoadedIndex(IndexRef(str(folder), 2))
    with pytest.raises(InputError, match="Choose one of: kernel, trie"):
        matcher_opener(worker.index, "magic")
