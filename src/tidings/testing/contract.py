"""Contract checks: what every matcher, partitioner and placer must satisfy, for tests of your own ones.

    def test_my_matcher():
        check_matcher(MyMatcher)

Each check raises AssertionError with an example. The random ones need Hypothesis (`pip install hypothesis`), which
reduces the example to a small one. docs/testing-kit.md has complete examples.
"""

from __future__ import annotations

import itertools
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.balance.corpus import Corpus
from tidings.balance.spatial_fit import build_workload
from tidings.balance.split_corpus import MIN_POSTS_PER_SPLIT
from tidings.balance.workload import Workload
from tidings.errors import InputError
from tidings.index.compile import GrowingVocabulary, compile_subscriptions
from tidings.matching.brute_force import RawPost
from tidings.plan.placement.placer import Placer
from tidings.plan.placement.shard_terms import ShardTerms
from tidings.plan.space import SpatialPlan, read_spatial_plan, write_spatial_plan
from tidings.plan.words import MAX_MATCHERS, LearnedPlan, WordPlan, hash_to_matchers, read_word_plan, write_word_plan
from tidings.query.conjunctions import Conjunctions
from tidings.testing import examples
from tidings.testing.oracles import Matches, expected_matches
from tidings.testing.pipeline import MatcherFactory, match_conjunctions, post_positions, subscription_table

MatchQueries = Callable[[Sequence[str], Sequence[RawPost], int], Matches]  # queries, posts, batch size → matches
FitWordPlan = Callable[[Corpus, int], WordPlan]
FitSpatialPlan = Callable[[Workload, int], SpatialPlan]

SAMPLE_WORDS = "cat dog fish bird rain house white tokyo".split()
SAMPLE_TERMS = [b"cat", b"dog", b"fish", b"bird", b"rain", b"hous", b"white", b"tokyo"]
_MATCHER_COUNTS = (1, 2, 3, 16, 70, MAX_MATCHERS)
_SPATIAL_MATCHER_COUNTS = (1, 2, 5, 70)


# Matchers


def check_matcher(factory: MatcherFactory, max_examples: int = 100) -> None:
    """Check that the matchers which `factory` creates from conjunctions find exactly the brute-force matches."""
    check_matches(partial(match_conjunctions, factory), max_examples)


def check_matches(match: MatchQueries, max_examples: int = 100) -> None:
    """Check that a function from queries, posts and a batch size returns the brute-force matches, each once."""
    check_example_matches(match)
    check_empty_inputs(match)
    check_repeated_queries(match)
    check_long_posts(match)
    check_long_conjunctions(match)
    check_random_matches(match, max_examples)


def assert_same_matches(match: MatchQueries, queries: Sequence[str], posts: Sequence[RawPost], batch_size: int) -> None:
    """Raise AssertionError with the differences to the brute-force matches."""
    counts, expected = Counter(match(queries, posts, batch_size)), set(expected_matches(queries, posts))
    problems = {
        "missing": expected - counts.keys(),
        "wrong": counts.keys() - expected,
        "repeated": {pair for pair, count in counts.items() if count > 1},
    }
    lines = [
        f"{problem}: query {queries[subscription]!r}, post {posts[post]}"
        for problem, pairs in problems.items()
        for subscription, post in sorted(pairs)[:5]
    ]
    assert not lines, "\n".join(["the matches differ from those of the brute force", *lines])


def check_example_matches(match: MatchQueries) -> None:
    """Check fixed examples, all together and single queries alone."""
    for batch_size in (1000, 7):
        assert_same_matches(match, examples.QUERIES, examples.POSTS, batch_size)
    for query in examples.QUERIES[6::4]:
        assert_same_matches(match, [query], examples.POSTS, 1000)


def check_empty_inputs(match: MatchQueries) -> None:
    """Check inputs without queries, without valid queries, without posts and without matches."""
    for queries in ([], ["the"], ["cat"]):
        for texts in ([], [""], ["", "", "zebra"], ["cats"]):
            assert_same_matches(match, queries, [RawPost(text) for text in texts], 10)


def check_repeated_queries(match: MatchQueries) -> None:
    """Check that all subscriptions with the same words are reported."""
    queries = ["cat"] * 300 + ["dog cat", "cat dog cat", "cat OR dog"] * 100
    assert_same_matches(match, queries, [RawPost(text) for text in ["cats", "dog", "dogs cat"] * 60], 90)


def check_long_posts(match: MatchQueries) -> None:
    """Check posts with hundreds of words."""
    strategies = _load_strategies()
    queries = [*strategies.WORDS, *strategies.UNSEEN]
    queries += ["w1", "w1 w2", "w1 w2 w3", '"w1 w2"', "w5 OR w6 OR w7", "w8 -w9"]
    queries += [f"w{number} w{number * 7 % 999} w{number * 11 % 999}" for number in range(400)]
    assert_same_matches(match, queries, [RawPost(strategies.long_text(seed, 900)) for seed in range(8)], 5)


def check_long_conjunctions(match: MatchQueries) -> None:
    """Check conjunctions with hundreds of words."""
    words = [f"w{number}" for number in range(800)]
    queries = [" ".join(words), " ".join(words[:-1]), "w3 " + " OR ".join(words[:300]), " ".join(words[:5])]
    texts = [" ".join(words), " ".join(words[1:]), " ".join(words[:-1]), "w3", " ".join(words[:5])]
    assert_same_matches(match, queries, [RawPost(text) for text in texts], 2)


def check_random_matches(match: MatchQueries, max_examples: int = 100) -> None:
    """Check random queries and posts."""
    strategies = _load_strategies()
    from hypothesis import strategies as st

    def check(queries: list[str], posts: list[RawPost], batch_size: int) -> None:
        assert_same_matches(match, queries, posts, batch_size)

    sizes = st.sampled_from([1, 3, 1000])
    _for_all(check, max_examples, queries=strategies.query_lists, posts=strategies.post_lists, batch_size=sizes)


# Word partitioners


def check_word_partitioner(fit: FitWordPlan, max_examples: int = 25) -> None:
    """Check a function that learns a word plan from a corpus for a number of matchers.

    Every term, learned or not, has matchers in range, the same ones in every call. Learning is deterministic. Plans
    that are a `LearnedPlan` survive a file and hash unknown terms. Every matcher gets terms, if there are enough.
    """
    _load_strategies()
    from hypothesis import strategies as st

    texts = st.lists(st.lists(st.sampled_from(SAMPLE_WORDS)).map(" ".join))
    unicode = st.text(max_size=12).map(lambda text: text.encode("utf-8", "replace"))
    terms = st.lists(st.one_of(unicode, st.binary(max_size=9)))
    check = partial(_check_word_plan, fit)
    _for_all(check, max_examples, texts=texts, terms=terms, matchers=st.sampled_from(_MATCHER_COUNTS))
    check_no_idle_matcher(fit)
    _check_invalid_counts(partial(fit, build_corpus(["cat"])))


def build_corpus(texts: Sequence[str]) -> Corpus:
    return Corpus.from_texts(pa.array(texts, pa.string()))


def list_matchers(plan: WordPlan, terms: Sequence[bytes]) -> list[list[int]]:
    """Return the matchers of each term, one per split."""
    splits = plan.splits_of(terms)
    return [splits.matchers[start:end].tolist() for start, end in itertools.pairwise(splits.starts.astype(int))]


def check_no_idle_matcher(fit: FitWordPlan) -> None:
    """Check that each of 16 matchers gets some of 400 terms."""
    rng = np.random.default_rng(5)
    texts = [" ".join(f"w{word}" for word in rng.integers(0, 400, 6)) for _ in range(3000)]
    splits = fit(build_corpus(texts), 16).splits_of([b"w%d" % number for number in range(400)])
    idle = np.flatnonzero(np.bincount(splits.matchers, minlength=16) == 0)
    assert not len(idle), f"matchers without terms: {idle.tolist()}"


def _check_word_plan(fit: FitWordPlan, texts: list[str], terms: list[bytes], matchers: int) -> None:
    texts = texts * (2 * MIN_POSTS_PER_SPLIT)  # terms of a few posts have no splits
    plan, terms = fit(build_corpus(texts), matchers), [*terms, *SAMPLE_TERMS]
    splits = plan.splits_of(terms)
    assert plan.matchers == matchers
    assert splits.matchers.dtype == np.uint16, f"matchers have type {splits.matchers.dtype}, not uint16"
    assert len(splits) == len(terms), f"{len(terms)} terms have {len(splits)} rows"
    assert (splits.counts >= 1).all(), "a term has no matcher"
    assert (splits.matchers < matchers).all(), "a matcher is out of range"
    result = list_matchers(plan, terms)
    assert list_matchers(plan, terms[::-1]) == result[::-1], "the matchers of a term depend on the other terms"
    assert [list_matchers(plan, [term])[0] for term in terms[:5]] == result[:5], "a single term has other matchers"
    assert list_matchers(fit(build_corpus(texts), matchers), terms) == result, "learning is not deterministic"
    if isinstance(plan, LearnedPlan):
        _check_learned_plan(plan, terms, result, len(texts))


def _check_learned_plan(plan: LearnedPlan, terms: list[bytes], result: list[list[int]], posts: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_word_plan(plan, Path(folder, "plan"))
        copy = read_word_plan(Path(folder, "plan"))
    assert list_matchers(copy, terms) == result, "the plan changes when it is written and read"
    assert (copy.algorithm, copy.matchers, copy.posts) == (plan.algorithm, plan.matchers, posts)
    unknown = [term for term in terms if term not in SAMPLE_TERMS]
    hashed = [[matcher] for matcher in hash_to_matchers(unknown, plan.matchers).tolist()]
    assert list_matchers(plan, unknown) == hashed, "terms that were not in the sample are not hashed"


# Spatial partitioners


def check_spatial_partitioner(fit: FitSpatialPlan, max_examples: int = 20) -> None:
    """Check a function that learns a spatial plan from a workload for a number of matchers.

    Every cell and term has a matcher in range. Learning is deterministic, plans survive a file, boxes touch the areas
    of all their points, and every matcher gets something, if there is enough.
    """
    strategies = _load_strategies()
    from hypothesis import strategies as st

    check = partial(_check_matcher_ranges, fit)
    counts = st.sampled_from(_SPATIAL_MATCHER_COUNTS)
    _for_all(check, max_examples, queries=strategies.query_lists, posts=strategies.post_lists, matchers=counts)
    _check_town_plan(fit)
    _check_invalid_counts(partial(fit, build_post_workload(["cat"], [RawPost("cat", 1, 1)])))


def build_post_workload(queries: Sequence[str], posts: Sequence[RawPost]) -> Workload:
    """Build a workload from queries and posts."""
    vocabulary = GrowingVocabulary()
    compiled = compile_subscriptions(subscription_table(queries), vocabulary)
    sample = pa.array([post.text for post in posts], pa.string()), post_positions(posts)
    return build_workload(vocabulary.added.terms(), compiled.conjunctions, sample)


def town_workload(seed: int = 0, count: int = 600) -> tuple[list[str], list[RawPost]]:
    """Return queries and posts around three towns; words are frequent in one town and rare in another."""
    rng = np.random.default_rng(seed)
    towns = np.array([[40.7, -74.0], [25.8, -80.2], [18.4, -66.1]])
    positions = (towns[rng.integers(0, 3, count)] + rng.normal(0, 0.3, (count, 2))).tolist()
    words = rng.zipf(1.4, (count, 5)) % 300
    posts = [
        RawPost(" ".join(f"w{word}" for word in row), lat, lon)
        for row, (lat, lon) in zip(words, positions, strict=True)
    ]
    boxes = [f"within:{lon - 0.2},{lat - 0.2},{lon + 0.2},{lat + 0.2}" for lat, lon in positions]
    return [f"w{row[0]} {box}" for row, box in zip(words, boxes, strict=True)], posts


def describe_spatial_plan(plan: SpatialPlan, terms: Sequence[bytes] = (b"cat", b"w1", b"w7")) -> tuple[object, ...]:
    """Return the content of a plan as values that can be compared."""
    rows, matchers = plan.matchers_of(terms)
    lines = plan.lines.lons.tolist(), plan.lines.lats.tolist()
    areas = plan.area_of_cell.tolist(), plan.areas, matchers[rows].tolist()
    return plan.algorithm, plan.matchers, plan.posts, plan.model, lines, areas


def _check_matcher_ranges(fit: FitSpatialPlan, queries: list[str], posts: list[RawPost], matchers: int) -> None:
    plan = fit(build_post_workload(queries, posts[::2]), matchers)  # from half of the posts: some words stay unknown
    rows, table = plan.matchers_of(SAMPLE_TERMS)
    assert plan.matchers == matchers
    assert len(plan.area_of_cell) == plan.lines.columns * plan.lines.rows, "the number of cells is wrong"
    assert (plan.area_of_cell < plan.unlocated_area).all(), "a cell has no area"
    assert table[rows].shape == (len(plan.areas), len(SAMPLE_TERMS) + 1)
    assert (table[rows] < matchers).all(), "a matcher is out of range"


def _check_town_plan(fit: FitSpatialPlan) -> None:
    plan = fit(build_post_workload(*town_workload()), 5)
    copy = fit(build_post_workload(*town_workload()), 5)
    assert describe_spatial_plan(copy) == describe_spatial_plan(plan), "learning is not deterministic"
    with tempfile.TemporaryDirectory() as folder:
        write_spatial_plan(plan, Path(folder, "plan"))
        copy = read_spatial_plan(Path(folder, "plan"))
    assert describe_spatial_plan(copy) == describe_spatial_plan(plan), "the plan changes when it is written and read"
    _check_touched_areas(plan)
    plan = fit(build_post_workload(*town_workload(count=2000)), 4)
    used = {matcher for area in plan.areas[:-1] for matcher in area.matchers}
    assert used == {0, 1, 2, 3}, f"only the matchers {sorted(used)} get posts"


def _check_touched_areas(plan: SpatialPlan) -> None:
    """Check that `areas_of` a box contains the areas of random points in it."""
    rng = np.random.default_rng(1)
    corners = rng.uniform([-85, 15], [-60, 45], (50, 2, 2))
    boxes = np.column_stack([corners.min(axis=1), corners.max(axis=1)])
    areas, which = plan.areas_of(boxes, np.arange(50))
    touched = set(zip(which.tolist(), areas.tolist(), strict=True))
    for number, (west, south, east, north) in enumerate(boxes.tolist()):
        points = np.concatenate([rng.uniform([west, south], [east, north], (20, 2)), [[west, south], [east, north]]])
        cells = plan.lines.row(points[:, 1]) * plan.lines.columns + plan.lines.column(points[:, 0])
        missing = {(number, area) for area in plan.area_of_cell[cells].tolist()} - touched
        assert not missing, f"box {boxes[number].tolist()} does not touch the areas {sorted(missing)} of its points"


# Placers


def check_placer(place: Placer, max_examples: int = 100) -> None:
    """Check a placer: each conjunction goes to the matcher of one of its terms, with a seed always to the same one."""
    strategies = _load_strategies()
    from hypothesis import strategies as st

    counts, seeds = st.sampled_from([1, 2, 3, 8, 70, 1024]), st.integers(0, 1 << 40)
    check = partial(_check_placement, place)
    _for_all(check, max_examples, queries=strategies.query_lists, matchers=counts, seed=seeds)


def compile_for_placer(queries: Sequence[str], matchers: int) -> tuple[Conjunctions, NDArray[np.uint16]]:
    """Return the conjunctions of queries, and the matcher of each term id by hash."""
    vocabulary = GrowingVocabulary()
    conjunctions = compile_subscriptions(subscription_table(queries), vocabulary).conjunctions
    return conjunctions, np.concatenate([np.zeros(1, np.uint16), hash_to_matchers(vocabulary.added.terms(), matchers)])


def _check_placement(place: Placer, queries: list[str], matchers: int, seed: int) -> None:
    conjunctions, matcher_of = compile_for_placer(queries, matchers)
    chosen = place(conjunctions, matcher_of, matchers, seed, lambda: ShardTerms.empty(matchers))
    assert len(chosen) == len(conjunctions), f"{len(conjunctions)} conjunctions have {len(chosen)} matchers"
    for number, matcher in enumerate(chosen.tolist()):
        start, end = conjunctions.starts[number : number + 2].tolist()
        terms = conjunctions.terms[start:end].tolist()
        assert matcher < matchers, "a matcher is out of range"
        assert not terms or matcher in matcher_of[terms], "a conjunction is on a matcher of none of its terms"
    again = place(conjunctions, matcher_of, matchers, seed, lambda: ShardTerms.empty(matchers))
    assert np.array_equal(chosen, again), "the same seed gives another placement"


# Helpers


def _load_strategies() -> Any:
    """Import `testing.strategies`. Raise MissingExtraError without Hypothesis."""
    from tidings.testing import strategies

    return strategies


def _for_all(check: Callable[..., None], max_examples: int, **strategies: Any) -> None:
    from hypothesis import HealthCheck, given, settings

    slow = [HealthCheck.too_slow, HealthCheck.data_too_large]

    @settings(max_examples=max_examples, deadline=None, suppress_health_check=slow)
    @given(**strategies)
    def property_holds(**values: Any) -> None:
        check(**values)

    property_holds()


def _check_invalid_counts(fit: Callable[[int], object]) -> None:
    for matchers in (0, -1, MAX_MATCHERS + 1):
        try:
            fit(matchers)
        except InputError:
            continue
        raise AssertionError(f"{matchers} matchers: no InputError")
