"""A word plan: which matchers are responsible for a term. Immutable, stored in one file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.errors import InputError
from tidings.plan.file import read_plan_file, write_plan_file
from tidings.plan.hot_splits import HotSplits
from tidings.text.vocabulary import Vocabulary, hash_terms

MAX_MATCHERS = 1024
_WORD_PLAN_FORMAT = ("tidings-plan", 1)


class WordPlan(Protocol):
    """Every term, learned or not, has at least one matcher, always the same ones."""

    @property
    def algorithm(self) -> str: ...

    @property
    def matchers(self) -> int: ...

    def splits_of(self, terms: Sequence[bytes]) -> HotSplits:
        """Return the matchers of each term: one, or one per split of a hot term."""
        ...


class HashPlan:
    """S³-TM's default: terms are hashed to matchers. It learns nothing and accepts every term."""

    algorithm = "hash"

    def __init__(self, matchers: int) -> None:
        self.matchers = check_matcher_count(matchers)

    def splits_of(self, terms: Sequence[bytes]) -> HotSplits:
        return HotSplits.unsplit(hash_to_matchers(terms, self.matchers))


@dataclass(frozen=True, slots=True)
class LearnedPlan:
    """The terms of a sample of posts, each with its matchers; other terms are hashed."""

    algorithm: str
    matchers: int
    seed: int
    posts: int  # in the sample it was learned from
    vocabulary: Vocabulary  # numbered from 1, while `splits` are numbered from 0
    splits: HotSplits

    def splits_of(self, terms: Sequence[bytes]) -> HotSplits:
        numbers = self.vocabulary.find_ids(terms).astype(np.int64)
        known = numbers > 0
        counts = np.ones(len(terms), np.int64)
        counts[known] = self.splits.counts[numbers[known] - 1]
        starts = np.concatenate([[0], np.cumsum(counts)])
        matchers = np.empty(int(starts[-1]), np.uint16)
        unknown = [terms[row] for row in np.flatnonzero(~known).tolist()]
        matchers[starts[:-1][~known]] = hash_to_matchers(unknown, self.matchers)
        firsts = self.splits.starts.astype(np.int64)[numbers[known] - 1]
        for split in range(int(counts.max(initial=0))):
            rows = np.flatnonzero(known & (counts > split))
            matchers[starts[rows] + split] = self.splits.matchers[firsts[counts[known] > split] + split]
        return HotSplits(matchers, starts.astype(np.uint64))


def hash_to_matchers(terms: Sequence[bytes], matchers: int) -> NDArray[np.uint16]:
    """Return the matcher of each term by its hash alone."""
    return (hash_terms(terms) % np.uint64(matchers)).astype(np.uint16)


def check_matcher_count(matchers: int) -> int:
    """Return the number of matchers; InputError if it is out of range."""
    if not 1 <= matchers <= MAX_MATCHERS:
        raise InputError(f"matchers: {matchers:,} is out of range. Choose a number from 1 to {MAX_MATCHERS:,}.")
    return matchers


def write_word_plan(plan: LearnedPlan, path: Path) -> None:
    """Write one Parquet file with the columns `word` and `matchers`, one matcher per split."""
    metadata = {"algorithm": plan.algorithm, "matchers": plan.matchers, "seed": plan.seed, "posts": plan.posts}
    lists = pa.ListArray.from_arrays(
        pa.array(plan.splits.starts.astype(np.int32)), pa.array(plan.splits.matchers, pa.uint16())
    )
    table = pa.table({"word": pa.array(plan.vocabulary.terms(), pa.binary()), "matchers": lists})
    write_plan_file(table, metadata, _WORD_PLAN_FORMAT, path)


def read_word_plan(path: Path) -> LearnedPlan:
    """Return a plan; InputError names a file that is not a word plan."""
    table, metadata = read_plan_file(path, _WORD_PLAN_FORMAT)
    lists = table.column("matchers").combine_chunks()
    splits = HotSplits(
        np.asarray(lists.flatten()).astype(np.uint16, copy=False), np.asarray(lists.offsets).astype(np.uint64)
    )
    vocabulary = Vocabulary.build(table.column("word").to_pylist())
    matchers = check_matcher_count(metadata["matchers"])
    if len(splits.matchers) and int(splits.matchers.max()) >= matchers:
        raise InputError(f"{path}: it refers to matchers it does not have. Create it again with `tidings plan learn`.")
    return LearnedPlan(metadata["algorithm"], matchers, metadata["seed"], metadata["posts"], vocabulary, splits)
