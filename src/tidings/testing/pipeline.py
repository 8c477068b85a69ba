"""Analyze, route, match and deduplicate in this process, as the Spark stages do, but without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.index.compile import GrowingVocabulary, compile_subscriptions
from tidings.index.reader import Index, SegmentView
from tidings.matching.brute_force import RawPost
from tidings.matching.dedup import drop_repeated, hits_schema
from tidings.matching.registry import DEFAULT_MATCHER, matcher_opener
from tidings.matching.segment_matcher import Matcher
from tidings.query.conjunctions import Conjunctions
from tidings.routing.spatial_router import open_router
from tidings.routing.wire import RoutedPosts, pack, routed_schema, unpack
from tidings.testing.oracles import Matches
from tidings.text.analyzer import AnalyzedBatch, Analyzer
from tidings.text.vocabulary import Vocabulary

MatcherFactory = Callable[[Conjunctions], Matcher]
MatcherWithIds = tuple[Matcher, NDArray[np.int64]]  # with the id of each of its subscriptions


class NumberedBatch(NamedTuple):
    """Analyzed posts; `first` is the number of the first one."""

    first: int
    analyzed: AnalyzedBatch
    positions: NDArray[np.float64]


def subscription_table(queries: Sequence[str], ids: Sequence[int] | None = None) -> pa.Table:
    """Return a table of subscriptions with these ids, by default 0, 1, 2, …"""
    ids = range(len(queries)) if ids is None else ids
    return pa.table({"id": pa.array(ids, pa.int64()), "query": pa.array(queries, pa.string())})


def post_positions(posts: Sequence[RawPost]) -> NDArray[np.float64]:
    """Return longitude and latitude of every post; NaN if missing."""
    degrees = [[np.nan if degree is None else degree for degree in (post.lon, post.lat)] for post in posts]
    return np.array(degrees, np.float64).reshape(-1, 2)


def analyze_posts(analyzer: Analyzer, posts: Sequence[RawPost], batch_size: int) -> Iterator[NumberedBatch]:
    """Yield the posts in analyzed batches."""
    for first in range(0, len(posts), batch_size):
        batch = posts[first : first + batch_size]
        texts = pa.array([post.text for post in batch], pa.string())
        yield NumberedBatch(first, analyzer.analyze(texts), post_positions(batch))


def match_conjunctions(
    factory: MatcherFactory, queries: Sequence[str], posts: Sequence[RawPost], batch_size: int = 1000
) -> Matches:
    """Return the sorted matches of the matcher that `factory` creates for the compiled queries."""
    vocabulary = GrowingVocabulary()
    compiled = compile_subscriptions(subscription_table(queries), vocabulary)
    analyzer = Analyzer(Vocabulary.build(vocabulary.added.terms()), compiled.conjunctions.has_phrases)
    return match_batches([(factory(compiled.conjunctions), compiled.rows)], analyze_posts(analyzer, posts, batch_size))


def match_batches(matchers: Sequence[MatcherWithIds], batches: Iterable[NumberedBatch]) -> Matches:
    """Return the sorted matches of all matchers, with duplicates."""
    matches: Matches = []
    for first, analyzed, positions in batches:
        for matcher, ids in matchers:
            hits = matcher.match(analyzed, positions)
            assert hits.posts.dtype == hits.subscriptions.dtype == np.uint32
            post_numbers = hits.posts.astype(np.int64) + first
            matches += zip(ids[hits.subscriptions].tolist(), post_numbers.tolist(), strict=True)
    return sorted(matches)


def match_index(
    index: Index,
    posts: Sequence[RawPost],
    batch_size: int,
    deduplicate: bool = True,
    matcher: str = DEFAULT_MATCHER,
) -> Matches:
    """Return the sorted matches of an index by its plan; `deduplicate=False` omits the last step."""
    open_matcher = matcher_opener(index, matcher)
    batches = analyze_posts(index.analyzer(), posts, batch_size)
    shards = [index.open_shard(number) for number in range(len(index.manifest.shards))]
    matchers = [[(open_matcher(view), segment_ids(view)) for view in shard] for shard in shards]
    if index.manifest.plan is None:
        return match_batches(matchers[0], batches)
    return sorted(_match_partitioned(index, shards, matchers, batches, deduplicate))


def segment_ids(view: SegmentView) -> NDArray[np.int64]:
    """Return the subscription ids of a segment."""
    ids: NDArray[np.int64] = view.segment.ids.to_numpy(zero_copy_only=False)
    return ids


def _match_partitioned(
    index: Index,
    shards: Sequence[Sequence[SegmentView]],
    matchers: Sequence[Sequence[MatcherWithIds]],
    batches: Iterable[NumberedBatch],
    deduplicate: bool,
) -> Iterator[tuple[int, int]]:
    router = open_router(index)
    schema = routed_schema(None, index.manifest.terms, index.manifest.regions, with_rows=True)
    for first, analyzed, positions in batches:
        ids = pa.nulls(len(analyzed))
        received = [
            (part.matcher, unpack(pack(part, ids, positions, schema), schema))
            for part in router.route(analyzed, positions).batches
        ]
        replies = [_shard_hits(shards[matcher], matchers[matcher], posts) for matcher, posts in received]
        hits = drop_repeated(replies) if deduplicate else pa.Table.from_batches(replies, hits_schema(pa.int64()))
        posts = [first + post for post in hits["post"].to_pylist()]
        yield from zip(hits["subscription_id"].to_pylist(), posts, strict=True)


def _shard_hits(shard: Sequence[SegmentView], matchers: Sequence[MatcherWithIds], posts: RoutedPosts) -> pa.RecordBatch:
    """Return what one matcher finds in the posts that were routed to it."""
    schema, batches = hits_schema(pa.int64()), []
    for (matcher, ids), view in zip(matchers, shard, strict=True):
        hits = matcher.match(posts.analyzed, posts.positions)
        shared = view.is_shared[hits.subscriptions].astype(bool)
        columns = [posts.posts.take(pa.array(hits.posts)), pa.array(ids[hits.subscriptions]), pa.array(shared)]
        batches.append(pa.record_batch(columns, schema=schema))
    return pa.concat_batches(batches or [pa.RecordBatch.from_pylist([], schema)])
