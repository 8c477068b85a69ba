"""Matchers by name: the compiled kernels, and the trie of S³-TM in plain Python. All find the same matches."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tidings.errors import InputError
from tidings.index.decompile import decompile
from tidings.index.reader import Index, SegmentView
from tidings.matching.segment_matcher import Matcher, SegmentMatcher
from tidings.matching.trie import TrieMatcher, rank_lexicographically

OpenMatcher = Callable[[SegmentView], Matcher]
DEFAULT_MATCHER = "kernel"


def _kernel_opener(index: Index) -> OpenMatcher:
    return lambda view: SegmentMatcher(view.segment, index.manifest.terms, view.removed)


def _trie_opener(index: Index) -> OpenMatcher:
    rank = rank_lexicographically(index.vocabulary.terms())
    return lambda view: TrieMatcher(decompile(view.segment, view.removed), rank)


MATCHERS: Mapping[str, Callable[[Index], OpenMatcher]] = {DEFAULT_MATCHER: _kernel_opener, "trie": _trie_opener}


def matcher_opener(index: Index, name: str = DEFAULT_MATCHER) -> OpenMatcher:
    """Return a function that opens a matcher for a segment of this index; InputError lists the names."""
    if name not in MATCHERS:
        raise InputError(f"matcher {name!r}: unknown. Choose one of: {', '.join(MATCHERS)}.")
    return MATCHERS[name](index)
