"""Every way to match that there is, behind one function. A new matcher joins the contract by being listed here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.balance.salb_work_aware import fit_texts
from tidings.balance.spatial_fit import LearnSpace, learn_space
from tidings.errors import QueryError
from tidings.index.builder import Learn, change_index, create_index, merge_index
from tidings.index.compile import GrowingVocabulary, compile_subscriptions
from tidings.index.decompile import decompile
from tidings.index.manifest import PlanRecord
from tidings.index.merge_policy import fold_index
from tidings.index.reader import Index, LiveSegment
from tidings.matching.brute_force import ScanPost, scan
from tidings.matching.dedup import Merger, hits_schema
from tidings.matching.segment_matcher import FlatMatcher, Matcher
from tidings.matching.trie import TrieMatcher, lexicographic
from tidings.query.parse import parse
from tidings.routing.spatial_router import open_router
from tidings.routing.wire import RoutedPosts, pack, routed_schema, unpack
from tidings.text.analyzer import Received, Receiver
from tidings.text.vocabulary import Vocabulary

Found = list[tuple[int, int]]  # (subscription, post), as often as it was reported
Match = Callable[[Path, Sequence[str], Sequence[ScanPost], int], Found]
Batch = tuple[int, Received, NDArray[np.float64]]  # the number of its first post, what was received, where

_EXTRA = 1_000_000  # ids of subscriptions that are there for a while only
_OLD_QUERY = "cat OR dog OR 東京 within:-180,-90,180,90"


def expected(queries: Sequence[str], posts: Sequence[ScanPost]) -> Found:
    """What the brute force finds, in order."""
    accepted = [(number, query) for number, text in enumerate(queries) if (query := _parsed(text)) is not None]
    found = scan(posts, [query for _, query in accepted])
    return sorted((accepted[place][0], post) for place, post in found)


def _parsed(text: str):
    try:
        return parse(text)
    except QueryError:
        return None


def table(queries: Sequence[str], ids: Sequence[int] | None = None) -> pa.Table:
    ids = range(len(queries)) if ids is None else ids
    return pa.table({"id": pa.array(ids, pa.int64()), "query": pa.array(queries, pa.string())})


def received(receiver: Receiver, posts: Sequence[ScanPost], batch_size: int) -> Iterator[Batch]:
    for first in range(0, len(posts), batch_size):
        some = posts[first : first + batch_size]
        where = [[np.nan if place is None else place for place in (post.lon, post.lat)] for post in some]
        yield first, receiver.receive(pa.array([post.text for post in some], pa.string())), np.array(where, np.float64)


def flat(folder: Path, queries: Sequence[str], posts: Sequence[ScanPost], batch_size: int) -> Found:
    return match_index(create_index(folder, table(queries))[0], posts, batch_size)


def partitioned(
    folder: Path,
    queries: Sequence[str],
    posts: Sequence[ScanPost],
    batch_size: int,
    *,
    matchers: int,
    algorithm: str = "hash",
    placement: str = "rarest",
) -> Found:
    record = PlanRecord(algorithm, matchers, 7, placement)
    index, _ = create_index(folder, table(queries), record, learner(algorithm, posts, matchers))
    return match_index(index, posts, batch_size)


def learner(algorithm: str, posts: Sequence[ScanPost], matchers: int) -> Learn:
    """Learns from half of the posts, so that there are unknown words too; with so few words, many of them are hot."""
    texts = pa.array([post.text for post in posts[::2]], pa.string())
    return lambda terms, conjunctions: fit_texts(algorithm, texts, terms, conjunctions, matchers)


def by_space(
    folder: Path,
    queries: Sequence[str],
    posts: Sequence[ScanPost],
    batch_size: int,
    *,
    algorithm: str,
    workers: int,
    merged: bool | None = None,
) -> Found:
    """Shared out by a space plan; with `merged`, after changes: left as they are, or merged."""
    record, space = PlanRecord(algorithm, workers, 7), space_learner(algorithm, posts, workers)
    if merged is None:
        return match_index(create_index(folder, table(queries), record, space)[0], posts, batch_size)
    index = fold_index(changed_index(folder, queries, record, space))
    return match_index(merge_index(index) if merged else index, posts, batch_size)


def space_learner(algorithm: str, posts: Sequence[ScanPost], workers: int) -> LearnSpace:
    """Learns from half of the posts, so that there are unknown places and words too."""
    some = posts[::2]
    where = [[np.nan if place is None else place for place in (post.lon, post.lat)] for post in some]
    texts = pa.array([post.text for post in some], pa.string())
    return learn_space(algorithm, workers, lambda: (texts, np.array(where, np.float64).reshape(-1, 2)))


def changed(
    folder: Path,
    queries: Sequence[str],
    posts: Sequence[ScanPost],
    batch_size: int,
    *,
    plan: PlanRecord | None = None,
    merged: bool = False,
) -> Found:
    learn = learner(plan.algorithm, posts, plan.matchers) if plan is not None else None
    index = changed_index(folder, queries, plan, learn)
    return match_index(merge_index(index) if merged else index, posts, batch_size)


def changed_index(
    folder: Path,
    queries: Sequence[str],
    plan: PlanRecord | None,
    learn: Learn | None = None,
) -> Index:
    """An index that came to hold these queries in three versions: some were added, some replaced, others removed."""
    kept, late, replaced = ([n for n in range(len(queries)) if n % 4 in rest] for rest in ((0, 2), (3,), (1,)))
    extra = [_EXTRA + number for number in kept]
    first = [
        *((number, queries[number]) for number in kept),
        *((number, _OLD_QUERY) for number in replaced),
        *((_EXTRA + number, queries[number]) for number in kept),
    ]
    old = table([query for _, query in first], [number for number, _ in first])
    index, _ = create_index(folder, old, plan, learn)
    half = len(extra) // 2
    added = table([queries[number] for number in late], late)
    index, _ = change_index(index, added, pa.array(extra[:half], pa.int64()))
    refused = [number for number in replaced if _parsed(queries[number]) is None]
    gone = [*extra[half:], *refused, 2 * _EXTRA]  # one of them was never there
    index, _ = change_index(index, table([queries[n] for n in replaced], replaced), pa.array(gone, pa.int64()))
    return index


def trie(folder: Path, queries: Sequence[str], posts: Sequence[ScanPost], batch_size: int) -> Found:
    vocabulary = GrowingVocabulary()
    compiled = compile_subscriptions(table(queries), vocabulary)
    terms = vocabulary.added.terms()
    matcher = TrieMatcher(compiled.conjunctions, lexicographic(terms))
    receiver = Receiver(Vocabulary.build(terms), compiled.conjunctions.has_phrases)
    found = matched([(matcher, compiled.rows)], received(receiver, posts, batch_size))
    return sorted(found)


def trie_of_segments(folder: Path, queries: Sequence[str], posts: Sequence[ScanPost], batch_size: int) -> Found:
    index = changed_index(folder, queries, None)
    matchers = [(TrieMatcher(decompile(live.segment, live.removed)), ids_of(live)) for live in index.shard(0)]
    receiver = index.receiver()
    return sorted(matched(matchers, received(receiver, posts, batch_size)))


def match_index(index: Index, posts: Sequence[ScanPost], batch_size: int, merge: bool = True) -> Found:
    """All matches of an index, by the plan it was made for; `merge=False` leaves the last step out."""
    receiver = index.receiver()
    batches = received(receiver, posts, batch_size)
    shards = [flat_matchers(index, shard) for shard in range(len(index.manifest.shards))]
    if index.manifest.plan is None:
        return sorted(matched(shards[0], batches))
    return sorted(_routed(index, shards, batches, merge))


def flat_matchers(index: Index, shard: int) -> list[tuple[FlatMatcher, NDArray[np.int64]]]:
    terms = index.manifest.terms
    return [(FlatMatcher(live.segment, terms, live.removed), ids_of(live)) for live in index.shard(shard)]


def ids_of(live: LiveSegment) -> NDArray[np.int64]:
    return live.segment.ids.to_numpy(zero_copy_only=False)


def matched(
    matchers: Sequence[tuple[Matcher, NDArray[np.int64]]], batches: Iterator[Batch]
) -> Iterator[tuple[int, int]]:
    for first, batch, where in batches:
        for matcher, ids in matchers:
            hits = matcher.match(batch, where)
            assert hits.posts.dtype == hits.subscriptions.dtype == np.uint32
            yield from zip(
                ids[hits.subscriptions].tolist(), (hits.posts.astype(np.int64) + first).tolist(), strict=True
            )


def _routed(index: Index, shards: Sequence, batches: Iterator[Batch], merge: bool) -> Iterator[tuple[int, int]]:
    """Route, match on every matcher what reaches it, merge: as the Spark stages do, without Spark."""
    router, merger = open_router(index), Merger()
    schema = routed_schema(pa.int64(), index.manifest.terms, index.manifest.regions, with_places=True)
    for number, (first, batch, where) in enumerate(batches):
        shares = router.route(batch, where).shares
        ids = pa.array(range(first, first + len(batch)), pa.int64())
        for share in shares:
            routed = unpack(pack(share, ids, where, schema), schema)
            answer = _answer(index, share.matcher, shards[share.matcher], routed)
            if merge and index.manifest.shared:
                yield from _pairs(merger.take(number, len(shares), answer))
            else:
                yield from _pairs([pa.Table.from_batches([answer])])
    assert not list(merger.rest())


def _answer(index: Index, shard: int, matchers: Sequence, routed: RoutedPosts) -> pa.RecordBatch:
    """What one matcher finds in the posts that were routed to it."""
    schema = hits_schema(pa.int64(), pa.int64())
    answers = []
    for (matcher, ids), live in zip(matchers, index.shard(shard), strict=True):
        hits = matcher.match(routed.received, routed.positions)
        posts, shared = pa.array(hits.posts), live.shared[hits.subscriptions].astype(bool)
        columns = [routed.posts.take(posts), routed.ids.take(posts), ids[hits.subscriptions], shared]
        answers.append(pa.record_batch([pa.array(column) for column in columns], schema=schema))
    whole = pa.Table.from_batches(answers, schema).combine_chunks()
    return whole.to_batches()[0] if len(whole) else pa.RecordBatch.from_pylist([], schema)


def _pairs(tables: Iterable[pa.Table]) -> Iterator[tuple[int, int]]:
    for found in tables:
        yield from zip(found.column("subscription_id").to_pylist(), found.column("post_id").to_pylist(), strict=True)


MATCHERS: Mapping[str, Match] = {
    "flat": flat,
    "flat on 1 matcher": partial(partitioned, matchers=1),
    "flat on 3 matchers": partial(partitioned, matchers=3),
    "flat on 8 matchers": partial(partitioned, matchers=8),
    "flat on 70 matchers": partial(partitioned, matchers=70),
    "flat after changes": changed,
    "flat after a merge": partial(changed, merged=True),
    "flat on 3 matchers after changes": partial(changed, plan=PlanRecord("hash", 3, 7, "random")),
    "flat on 3 matchers after a merge": partial(changed, plan=PlanRecord("hash", 3, 7), merged=True),
    "flat on 8 matchers, learned": partial(partitioned, matchers=8, algorithm="salb+", placement="lasp"),
    "flat on 70 matchers, learned": partial(partitioned, matchers=70, algorithm="gfcl", placement="random"),
    "flat on 3 matchers, learned, after changes": partial(changed, plan=PlanRecord("salb", 3, 7, "lasp")),
    "flat on 5 matchers, learned, after a merge": partial(changed, plan=PlanRecord("salb+", 5, 7), merged=True),
    "hybrid on 4 workers": partial(by_space, algorithm="hybrid", workers=4),
    "hybrid on 70 workers": partial(by_space, algorithm="hybrid", workers=70),
    "hybrid on 3 workers after changes": partial(by_space, algorithm="hybrid", workers=3, merged=False),
    "hybrid on 5 workers after a merge": partial(by_space, algorithm="hybrid", workers=5, merged=True),
    "grid on 3 workers": partial(by_space, algorithm="grid", workers=3),
    "kd-tree on 4 workers after changes": partial(by_space, algorithm="kdtree", workers=4, merged=False),
    "R-tree on 5 workers": partial(by_space, algorithm="rtree", workers=5),
    "frequency on 3 workers after a merge": partial(by_space, algorithm="frequency", workers=3, merged=True),
    "hypergraph on 3 workers": partial(by_space, algorithm="hypergraph", workers=3),
    "metric on 4 workers": partial(by_space, algorithm="metric", workers=4),
    "trie": trie,
    "trie of segments after changes": trie_of_segments,
}
