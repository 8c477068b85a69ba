"""Posts and subscriptions in the formats of the contenders: text and term ids as Parquet, and an index.

All of this is written before the time is measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tidings.index.builder import create_index
from tidings.index.decompile import decompile
from tidings.index.reader import Index
from tidings.ragged import take_rows
from tidings.text.analyzer import Analyzer
from tidings_lab.datasets import Posts, SubscriptionSet

FILES = 8  # of equal size, so that no core runs out of input early
_BATCH = 20_000


@dataclass(frozen=True, slots=True)
class Scale:
    """A number of posts on disk: `text` holds (id, text), `words` holds (post, id, words)."""

    name: str
    posts: int
    text: str
    words: str


@dataclass(frozen=True, slots=True)
class Inputs:
    """All posts and a sample of them; the subscriptions as given, as an index, and as a table of terms.

    Joins support only conjunctions of terms. The ids of the other subscriptions (`beyond_words`: phrases, OR, NOT) are
    excluded when matches are compared.
    """

    everything: Scale
    sample: Scale
    subscriptions: pa.Table
    index_folder: str
    word_table: str
    beyond_words: tuple[int, ...]
    accepted: int
    invalid: int


def write_inputs(folder: Path, posts: Posts, subscriptions: SubscriptionSet, sample: int) -> Inputs:
    """Write all formats of the input below a folder."""
    index, invalid = create_index(folder / "index", subscriptions.table)
    words = _analyze_all(posts.table.column("text"), Analyzer(index.vocabulary))
    plain, beyond = plain_words(index, _count_posts_per_term(words, index.manifest.terms))
    pq.write_table(plain, folder / "subscriptions.parquet")
    return Inputs(
        everything=_write_scale(folder, "all", posts.table, words),
        sample=_write_scale(folder, "sample", posts.table.slice(0, sample), words.slice(0, sample)),
        subscriptions=subscriptions.table,
        index_folder=str(folder / "index"),
        word_table=str(folder / "subscriptions.parquet"),
        beyond_words=tuple(beyond.tolist()),
        accepted=index.manifest.subscriptions,
        invalid=len(invalid),
    )


def plain_words(index: Index, frequency: NDArray[np.int64]) -> tuple[pa.Table, NDArray[np.int64]]:
    """Return `id`, `rarest` and `words` of plain conjunctions as a table, and the ids of the other subscriptions.

    `words` are term ids, the least frequent one first. `frequency` is the number of posts per term.
    """
    live = index.open_shard(0)[0]
    conjunctions = decompile(live.segment, live.removed)
    ids = live.segment.ids.to_numpy(zero_copy_only=False)
    is_plain = np.bincount(conjunctions.subscription, minlength=len(ids)) == 1
    is_plain[conjunctions.subscription[conjunctions.residual > 0]] = False
    rows = np.flatnonzero(is_plain[conjunctions.subscription])
    plain = conjunctions.select(rows)
    row = np.repeat(np.arange(len(plain)), np.diff(plain.starts).astype(np.int64))
    words = plain.terms[np.lexsort((plain.terms, frequency[plain.terms], row))]
    starts = plain.starts.astype(np.int32)
    lists = pa.ListArray.from_arrays(pa.array(starts), pa.array(words.astype(np.int32)))
    rarest = words[plain.starts[:-1].astype(np.int64)].astype(np.int32)
    return pa.table({"id": ids[plain.subscription], "rarest": rarest, "words": lists}), ids[~is_plain]


def _count_posts_per_term(words: pa.ChunkedArray, terms: int) -> NDArray[np.int64]:
    counts = np.zeros(terms + 1, np.int64)
    for piece in words.chunks:
        counts += np.bincount(piece.flatten().to_numpy(), minlength=terms + 1)
    return counts


def _write_scale(folder: Path, name: str, table: pa.Table, words: pa.ChunkedArray) -> Scale:
    text_folder, words_folder = folder / f"{name}-text", folder / f"{name}-words"
    _write_files(text_folder, table)
    numbers = np.arange(len(table))
    _write_files(words_folder, pa.table({"post": numbers, "id": table.column("id"), "words": words}))
    return Scale(name, len(table), str(text_folder), str(words_folder))


def _analyze_all(texts: pa.ChunkedArray, receiver: Analyzer) -> pa.ChunkedArray:
    """Return the distinct subscribed terms of each post as ids."""
    pieces = [texts.slice(at, _BATCH).combine_chunks() for at in range(0, len(texts), _BATCH)]
    return pa.chunked_array([_distinct_terms(piece, receiver) for piece in pieces], pa.list_(pa.int32()))


def _distinct_terms(texts: Any, receiver: Analyzer) -> pa.ListArray:
    received = receiver.analyze(texts)
    bounds = received.bounds.astype(np.int64)
    terms, starts = take_rows(received.terms, bounds[:, 0], bounds[:, 1] - bounds[:, 0])
    row = np.repeat(np.arange(len(bounds), dtype=np.uint64), np.diff(starts).astype(np.int64))
    keys = np.unique((row << np.uint64(32) | terms)[terms > 0])
    rows = np.searchsorted(keys >> np.uint64(32), np.arange(len(bounds) + 1, dtype=np.uint64)).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(rows), pa.array((keys & np.uint64(0xFFFFFFFF)).astype(np.int32)))


def _write_files(folder: Path, table: pa.Table) -> None:
    """Write a directory of files of equal size, compressed like those of Spark."""
    folder.mkdir(parents=True)
    size = max(1, -(-len(table) // FILES))
    for number, start in enumerate(range(0, len(table), size)):
        pq.write_table(table.slice(start, size), folder / f"part-{number:05d}.parquet", compression="snappy")
