"""A word plan says which matchers are responsible for a word. Immutable, one file, told by its content."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.errors import InputError
from tidings.plan import file
from tidings.plan.hot_splits import Versions
from tidings.text.vocabulary import Vocabulary, hash_terms

MAX_MATCHERS = 1024
_KIND = ("tidings-plan", 1)


class WordPlan(Protocol):
    """Every word, known or not, has at least one matcher; the same ones every time."""

    @property
    def algorithm(self) -> str: ...

    @property
    def matchers(self) -> int: ...

    def versions_of(self, terms: Sequence[bytes]) -> Versions:
        """The matchers of each word: one, or one for each version of a word that was split."""
        ...


class HashPlan:
    """S³-TM's default: words are hashed to matchers. Learns nothing, knows every word."""

    algorithm = "hash"

    def __init__(self, matchers: int) -> None:
        self.matchers = checked_matchers(matchers)

    def versions_of(self, terms: Sequence[bytes]) -> Versions:
        return Versions.whole(hashed(terms, self.matchers))


@dataclass(frozen=True, slots=True)
class LearnedPlan:
    """The words of a sample of posts, each with its matchers; words it never met are hashed."""

    algorithm: str
    matchers: int
    seed: int
    posts: int  # how many it was learned from
    words: Vocabulary  # numbered from 1 on, as `versions` are from 0 on
    versions: Versions

    def versions_of(self, terms: Sequence[bytes]) -> Versions:
        numbers = self.words.numbers(terms).astype(np.int64)
        known = numbers > 0
        counts = np.ones(len(terms), np.int64)
        counts[known] = self.versions.counts[numbers[known] - 1]
        starts = np.concatenate([[0], np.cumsum(counts)])
        matchers = np.empty(int(starts[-1]), np.uint16)
        matchers[starts[:-1][~known]] = hashed([terms[row] for row in np.flatnonzero(~known).tolist()], self.matchers)
        firsts = self.versions.starts.astype(np.int64)[numbers[known] - 1]
        for version in range(int(counts.max(initial=0))):
            rows = np.flatnonzero(known & (counts > version))
            matchers[starts[rows] + version] = self.versions.matchers[firsts[counts[known] > version] + version]
        return Versions(matchers, starts.astype(np.uint64))


def hashed(terms: Sequence[bytes], matchers: int) -> NDArray[np.uint16]:
    """The matcher of each word by its hash alone."""
    return (hash_terms(terms) % np.uint64(matchers)).astype(np.uint16)


def checked_matchers(matchers: int) -> int:
    if not 1 <= matchers <= MAX_MATCHERS:
        raise InputError(f"The number of matchers must be between 1 and {MAX_MATCHERS:,}; {matchers:,} was given.")
    return matchers


def save_plan(plan: LearnedPlan, path: Path) -> None:
    """Write a plan as one Parquet file: `word`, and `matchers`, one for each version."""
    about = {
        "algorithm": plan.algorithm,
        "matchers": plan.matchers,
        "seed": plan.seed,
        "posts": plan.posts,
    }
    lists = pa.ListArray.from_arrays(
        pa.array(plan.versions.starts.astype(np.int32)), pa.array(plan.versions.matchers, pa.uint16())
    )
    table = pa.table({"word": pa.array(plan.words.terms(), pa.binary()), "matchers": lists})
    file.save(table, about, _KIND, path)


def load_plan(path: Path) -> LearnedPlan:
    """Read a plan; InputError, naming the file, when it is none."""
    table, about = file.load(path, _KIND)
    lists = table.column("matchers").combine_chunks()
    versions = Versions(
        np.asarray(lists.flatten()).astype(np.uint16, copy=False), np.asarray(lists.offsets).astype(np.uint64)
    )
    words = Vocabulary.build(table.column("word").to_pylist())
    matchers = checked_matchers(about["matchers"])
    if len(versions.matchers) and int(versions.matchers.max()) >= matchers:
        raise InputError(f"{path}: it names matchers it does not have; make it again with `tidings plan learn`.")
    return LearnedPlan(about["algorithm"], matchers, about["seed"], about["posts"], words, versions)
