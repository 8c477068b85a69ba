"""All ways to match, behind one function. A new matcher or plan joins the contract by being listed here."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa

from tidings.balance.salb_work_aware import fit_texts
from tidings.balance.spatial_fit import SpatialFitter, spatial_fitter
from tidings.balance.split_corpus import MIN_POSTS_PER_SPLIT
from tidings.index.builder import FitPlan, apply_changes, create_index, merge_index
from tidings.index.compile import GrowingVocabulary, compile_subscriptions
from tidings.index.decompile import decompile
from tidings.index.manifest import PlanRecord
from tidings.index.reader import Index
from tidings.matching.brute_force import RawPost
from tidings.matching.registry import DEFAULT_MATCHER
from tidings.matching.trie import TrieMatcher, rank_lexicographically
from tidings.testing.contract import MatchQueries
from tidings.testing.oracles import Matches, parse_or_none
from tidings.testing.pipeline import (
    analyze_posts,
    match_batches,
    match_index,
    post_positions,
    segment_ids,
    subscription_table,
)
from tidings.text.analyzer import Analyzer
from tidings.text.term_statistics import TermStatistics
from tidings.text.vocabulary import Vocabulary

MatchInFolder = Callable[[Path, Sequence[str], Sequence[RawPost], int], Matches]

_TEMPORARY_ID = 1_000_000  # ids of subscriptions that are removed again start here
_OLD_QUERY = "cat OR dog OR 東京 within:-180,-90,180,90"


def word_plan_fitter(algorithm: str, posts: Sequence[RawPost], matchers: int) -> FitPlan:
    """Learn from half of the posts, so that some terms stay unknown; with so few words, many terms are hot.

    The posts are repeated: a term of a few posts has no splits.
    """
    texts = pa.array([post.text for post in posts[::2]] * (2 * MIN_POSTS_PER_SPLIT), pa.string())
    return lambda terms, conjunctions: fit_texts(algorithm, texts, terms, conjunctions, matchers)


def spatial_plan_fitter(algorithm: str, posts: Sequence[RawPost], matchers: int) -> SpatialFitter:
    """Learn from half of the posts, so that some positions and terms stay unknown."""
    sample = posts[::2]
    texts = pa.array([post.text for post in sample], pa.string())
    return spatial_fitter(algorithm, matchers, lambda: (texts, post_positions(sample)))


def _match_replicated(folder: Path, queries: Sequence[str], posts: Sequence[RawPost], batch_size: int) -> Matches:
    return match_index(create_index(folder, subscription_table(queries))[0], posts, batch_size)


def _match_by_words(
    folder: Path,
    queries: Sequence[str],
    posts: Sequence[RawPost],
    batch_size: int,
    *,
    matchers: int,
    algorithm: str = "hash",
    placer: str = "anchor",
    matcher: str = DEFAULT_MATCHER,
) -> Matches:
    plan = PlanRecord(algorithm, matchers, 7, placer)
    fit = word_plan_fitter(algorithm, posts, matchers)
    index, _ = create_index(folder, subscription_table(queries), plan, fit)
    return match_index(index, posts, batch_size, matcher=matcher)


def match_by_space(
    folder: Path,
    queries: Sequence[str],
    posts: Sequence[RawPost],
    batch_size: int,
    *,
    algorithm: str,
    matchers: int,
    is_merged: bool | None = None,
    matcher: str = DEFAULT_MATCHER,
) -> Matches:
    """With `is_merged` not None the index has changed since it was created, and its segments are merged or not."""
    plan, fit = PlanRecord(algorithm, matchers, 7), spatial_plan_fitter(algorithm, posts, matchers)
    if is_merged is None:
        index, _ = create_index(folder, subscription_table(queries), plan, fit)
        return match_index(index, posts, batch_size, matcher=matcher)
    index = create_changed_index(folder, queries, plan, fit)
    return match_index(merge_index(index) if is_merged else index, posts, batch_size, matcher=matcher)


def _match_changed(
    folder: Path,
    queries: Sequence[str],
    posts: Sequence[RawPost],
    batch_size: int,
    *,
    plan: PlanRecord | None = None,
    is_merged: bool = False,
    has_statistics: bool = False,
    matcher: str = DEFAULT_MATCHER,
) -> Matches:
    fit = word_plan_fitter(plan.algorithm, posts, plan.matchers) if plan is not None else None
    statistics = _count_terms(posts) if has_statistics else None
    index = create_changed_index(folder, queries, plan, fit, statistics)
    return match_index(merge_index(index) if is_merged else index, posts, batch_size, matcher=matcher)


def create_changed_index(
    folder: Path,
    queries: Sequence[str],
    plan: PlanRecord | None,
    fit: FitPlan | None = None,
    statistics: TermStatistics | None = None,
) -> Index:
    """Create an index with these queries in three versions: some are added later, some replaced, others removed.

    With statistics, the first version is merged to choose anchors by them.
    """
    kept, late, replaced = ([n for n in range(len(queries)) if n % 4 in rest] for rest in ((0, 2), (3,), (1,)))
    temporary = [_TEMPORARY_ID + number for number in kept]
    first = [
        *((number, queries[number]) for number in kept),
        *((number, _OLD_QUERY) for number in replaced),
        *((_TEMPORARY_ID + number, queries[number]) for number in kept),
    ]
    old = subscription_table([query for _, query in first], [number for number, _ in first])
    index, _ = create_index(folder, old, plan, fit)
    if statistics is not None:
        index = merge_index(index, statistics)
    half = len(temporary) // 2
    added = subscription_table([queries[number] for number in late], late)
    index, _ = apply_changes(index, added, pa.array(temporary[:half], pa.int64()))
    invalid = [number for number in replaced if parse_or_none(queries[number]) is None]
    removed = [*temporary[half:], *invalid, 2 * _TEMPORARY_ID]  # the last one never existed
    new = subscription_table([queries[number] for number in replaced], replaced)
    index, _ = apply_changes(index, new, pa.array(removed, pa.int64()))
    return index


def _count_terms(posts: Sequence[RawPost]) -> TermStatistics:
    """Count the terms of half of the posts twice, so that also terms of a single post count."""
    return TermStatistics.of(pa.array([post.text for post in posts[::2]] * 2, pa.large_string()))


def _match_with_trie(folder: Path, queries: Sequence[str], posts: Sequence[RawPost], batch_size: int) -> Matches:
    vocabulary = GrowingVocabulary()
    compiled = compile_subscriptions(subscription_table(queries), vocabulary)
    terms = vocabulary.added.terms()
    matcher = TrieMatcher(compiled.conjunctions, rank_lexicographically(terms))
    analyzer = Analyzer(Vocabulary.build(terms), compiled.conjunctions.has_phrases)
    return match_batches([(matcher, compiled.rows)], analyze_posts(analyzer, posts, batch_size))


def _match_with_decompiled_trie(
    folder: Path, queries: Sequence[str], posts: Sequence[RawPost], batch_size: int
) -> Matches:
    index = create_changed_index(folder, queries, None)
    views = index.open_shard(0)
    matchers = [(TrieMatcher(decompile(view.segment, view.removed)), segment_ids(view)) for view in views]
    return match_batches(matchers, analyze_posts(index.analyzer(), posts, batch_size))


_IN_FOLDER: Mapping[str, MatchInFolder] = {
    "replicated": _match_replicated,
    "hash on 1 matcher": partial(_match_by_words, matchers=1),
    "hash on 3 matchers": partial(_match_by_words, matchers=3),
    "hash on 8 matchers": partial(_match_by_words, matchers=8),
    "hash on 70 matchers": partial(_match_by_words, matchers=70),
    "replicated after changes": _match_changed,
    "replicated after a merge": partial(_match_changed, is_merged=True),
    "hash on 3 matchers after changes": partial(_match_changed, plan=PlanRecord("hash", 3, 7, "random")),
    "hash on 3 matchers after a merge": partial(_match_changed, plan=PlanRecord("hash", 3, 7), is_merged=True),
    "replicated by statistics after changes": partial(_match_changed, has_statistics=True),
    "replicated by statistics after a merge": partial(_match_changed, has_statistics=True, is_merged=True),
    "salb+ on 3 matchers by statistics after changes": partial(
        _match_changed, plan=PlanRecord("salb+", 3, 7), has_statistics=True
    ),
    "salb+ on 8 matchers": partial(_match_by_words, matchers=8, algorithm="salb+", placer="lasp"),
    "gfcl on 70 matchers": partial(_match_by_words, matchers=70, algorithm="gfcl", placer="random"),
    "salb on 3 matchers after changes": partial(_match_changed, plan=PlanRecord("salb", 3, 7, "lasp")),
    "salb+ on 5 matchers after a merge": partial(_match_changed, plan=PlanRecord("salb+", 5, 7), is_merged=True),
    "hybrid on 4 matchers": partial(match_by_space, algorithm="hybrid", matchers=4),
    "hybrid on 70 matchers": partial(match_by_space, algorithm="hybrid", matchers=70),
    "hybrid on 3 matchers after changes": partial(match_by_space, algorithm="hybrid", matchers=3, is_merged=False),
    "hybrid on 5 matchers after a merge": partial(match_by_space, algorithm="hybrid", matchers=5, is_merged=True),
    "kdt on 4 matchers": partial(match_by_space, algorithm="kdt", matchers=4),
    "kdt on 3 matchers after changes": partial(match_by_space, algorithm="kdt", matchers=3, is_merged=False),
    "grid on 3 matchers": partial(match_by_space, algorithm="grid", matchers=3),
    "kdtree on 4 matchers after changes": partial(match_by_space, algorithm="kdtree", matchers=4, is_merged=False),
    "rtree on 5 matchers": partial(match_by_space, algorithm="rtree", matchers=5),
    "frequency on 3 matchers after a merge": partial(match_by_space, algorithm="frequency", matchers=3, is_merged=True),
    "hypergraph on 3 matchers": partial(match_by_space, algorithm="hypergraph", matchers=3),
    "metric on 4 matchers": partial(match_by_space, algorithm="metric", matchers=4),
    "trie": _match_with_trie,
    "trie on 5 matchers": partial(_match_by_words, matchers=5, algorithm="salb+", matcher="trie"),
    "trie on 3 matchers after changes": partial(_match_changed, plan=PlanRecord("hash", 3, 7, "lasp"), matcher="trie"),
    "trie on 3 matchers after a merge": partial(
        _match_changed, plan=PlanRecord("salb+", 3, 7, "random"), is_merged=True, matcher="trie"
    ),
    "trie by places on 4 matchers": partial(match_by_space, algorithm="kdtree", matchers=4, matcher="trie"),
    "decompiled trie after changes": _match_with_decompiled_trie,
}


def _in_new_folder(match: MatchInFolder) -> MatchQueries:
    def match_queries(queries: Sequence[str], posts: Sequence[RawPost], batch_size: int) -> Matches:
        with tempfile.TemporaryDirectory() as folder:
            return match(Path(folder) / "index", queries, posts, batch_size)

    return match_queries


MATCHERS: Mapping[str, MatchQueries] = {name: _in_new_folder(match) for name, match in _IN_FOLDER.items()}
