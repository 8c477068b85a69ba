"""Parse the tags of posts: hashtags in the text, the `tags` column, and tracked words.

`text.analyzer` defines what a hashtag is and which spellings are equal: its tokenizer is used for tags only. A tracked
word counts as the tag of the same name. Of a post with more than `MAX_TAGS` tags the first ones count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numba import int64, types, uint32, uint64
from numpy.typing import NDArray

from tidings.correlate.partition.subset_counts import MAX_TAGS
from tidings.correlate.partition.tagset_trie import grow_array
from tidings.correlate.posts import TaggedPosts
from tidings.correlate.tag_dictionary import TagDictionary, number_by_first_occurrence
from tidings.errors import InputError
from tidings.jit import inline, kernel, read, write
from tidings.text.analyzer import AnalyzedBatch, Analyzer
from tidings.text.arrow_buffers import text_buffers
from tidings.text.reference_analyzer import normalize, stop_words, tokenize
from tidings.text.searchable import join_searchable
from tidings.text.vocabulary import PackedTerms, pack_terms

_MAX_CACHED_TAGS = 1 << 21  # distinct tags and spellings before the caches are cleared
_HASH_SIGN = np.uint8(ord("#"))
_ZERO = np.uint64(0)
_ONE = np.uint64(1)


@dataclass(frozen=True, slots=True)
class ParsedTags:
    """The posts of a batch that have tags. A tag is a line number in `names`.

    `capped` counts posts with too many tags; `rows` are the rows of the posts in the batch.
    """

    posts: TaggedPosts
    names: bytes
    capped: int = 0
    rows: NDArray[np.intp] = field(default_factory=lambda: np.zeros(0, np.intp))


class TagIds:
    """Ids of tags, from 1. A tracked word has the id of the tag of its name; other words have none (0)."""

    def __init__(self, tracked: Sequence[str] = ()) -> None:
        self.names = TagDictionary()
        self._tracked: dict[bytes, int] = {}
        for word in tracked:
            terms = [token.term for token in tokenize(word)]
            if len(terms) != 1 or not terms[0] or normalize(word) in stop_words():
                raise InputError(f"--track {word!r}: cannot be tracked. Give one word that is not a stop word.")
            (tag,) = self.find(pack_terms([f"#{normalize(word.strip())}".encode()])).tolist()
            self._tracked[terms[0].encode()] = tag

    def find(self, terms: PackedTerms) -> NDArray[np.uint32]:
        """Return the id of each term, 0 if it is not a tag."""
        text, begins, ends = np.append(terms.text, np.uint8(0)), terms.starts[:-1], terms.starts[1:]
        is_tag = (text[begins.astype(np.int64)] == _HASH_SIGN) & (begins < ends)
        ids = np.zeros(len(begins), np.uint32)
        ids[is_tag] = self.names.assign_ids(text, begins[is_tag] + _ONE, ends[is_tag]) + np.uint32(1)
        if self._tracked:
            for row, term in enumerate(terms.to_list()):
                ids[row] = self._tracked.get(term) or ids[row]
        return ids

    def format_lines(self, ids: NDArray[np.uint32]) -> bytes:
        """Return the names of these tags, one per line."""
        return self.names.format_lines(ids - np.uint32(1))


class TagParser:
    """Parses the tags of batches of posts that have a `time` (in microseconds) and `text`, `title` or `tags`."""

    def __init__(self, tracked: Sequence[str] = ()) -> None:
        self._tracked = tuple(tracked)
        self._clear_caches()

    def _clear_caches(self) -> None:
        self._tag_ids = TagIds(self._tracked)
        self._analyzer = Analyzer(self._tag_ids)
        self._spellings = TagDictionary()  # the entries of `tags` columns as they are written
        self._tag_of_spelling: NDArray[np.uint32] = np.zeros(1 << 10, np.uint32)

    def parse(self, batch: pa.RecordBatch) -> ParsedTags:
        """Return the posts that have both a time and tags, in their order."""
        if len(self._tag_ids.names) + len(self._spellings) > _MAX_CACHED_TAGS:
            self._clear_caches()
        times = batch.column("time")
        is_timed = times.is_valid().to_numpy(zero_copy_only=False)
        tags, lengths, capped = _select_first_tags(self._parse_texts(batch), self._parse_tag_lists(batch), is_timed)
        rows = np.flatnonzero(lengths)
        starts = np.concatenate([np.zeros(1, np.uint64), np.cumsum(lengths[rows], dtype=np.uint64)])
        used, local = number_by_first_occurrence(tags)
        post_times = times.fill_null(0).to_numpy()[rows]
        return ParsedTags(TaggedPosts(post_times, local, starts), self._tag_ids.format_lines(used), capped, rows)

    def _parse_texts(self, batch: pa.RecordBatch) -> AnalyzedBatch | None:
        """Return the tags in titles and texts."""
        names = [name for name in ("text", "title") if name in batch.schema.names]
        return self._analyzer.analyze(join_searchable(batch.select(names))) if "text" in names else None

    def _parse_tag_lists(self, batch: pa.RecordBatch) -> AnalyzedBatch | None:
        """Return the tags of the `tags` column. Every spelling is analyzed once."""
        if "tags" not in batch.schema.names:
            return None
        lists = batch.column("tags")
        lists = lists.fill_null([]) if lists.null_count else lists
        bounds = np.asarray(lists.offsets).astype(np.uint32)
        text, offsets = text_buffers(lists.values[int(bounds[0]) : int(bounds[-1])])
        known, ends = len(self._spellings), offsets.astype(np.uint64)
        spellings = self._spellings.assign_ids(text, ends[:-1], ends[1:])
        if len(self._spellings) > known:
            self._analyze_spellings(self._spellings.names_from(known), known)
        bounds -= bounds[0]
        return AnalyzedBatch(self._tag_of_spelling[spellings], np.column_stack([bounds[:-1], bounds[1:]]))

    def _analyze_spellings(self, spellings: list[bytes], first: int) -> None:
        """Analyze spellings, numbered from `first`, in the same way as for matching."""
        lists = pa.array([[tag.decode("utf-8", "replace")] for tag in spellings], pa.list_(pa.string()))
        analyzed = self._analyzer.analyze(
            join_searchable(pa.record_batch([pa.array([""] * len(spellings)), lists], ["text", "tags"]))
        )
        if first + len(spellings) > len(self._tag_of_spelling):
            self._tag_of_spelling = grow_array(self._tag_of_spelling, 2 * (first + len(spellings)))
        has_tag = np.flatnonzero(analyzed.bounds[:, 0] < analyzed.bounds[:, 1])
        self._tag_of_spelling[first + has_tag] = analyzed.terms[analyzed.bounds[has_tag, 0]]


def _select_first_tags(
    in_text: AnalyzedBatch | None, in_list: AnalyzedBatch | None, is_timed: NDArray[np.bool_]
) -> tuple[NDArray[np.uint32], NDArray[np.uint64], int]:
    """Return the first distinct tags of all rows, their number per row, and how many rows have more."""
    rows = len(is_timed)
    empty = AnalyzedBatch(np.zeros(0, np.uint32), np.zeros((rows, 2), np.uint32))
    text, lists = in_text or empty, in_list or empty
    tags, lengths = np.empty(len(text.terms) + len(lists.terms), np.uint32), np.zeros(rows, np.uint64)
    capped = _write_first_tags(text.terms, text.bounds, lists.terms, lists.bounds, is_timed, tags, lengths)
    return tags[: int(lengths.sum())], lengths, int(capped)


@inline
def _contains(tags, first, last, tag):  # type: ignore[no-untyped-def]
    found = False
    for at in range(first, last):
        found |= tags[at] == tag
    return found


@inline
def _add_tags(terms, begin, end, tags, first, last):  # type: ignore[no-untyped-def]
    """Append new tags to a row and return its end. One tag above the maximum is appended, to show that there is one."""
    for at in range(begin, end):
        if last - first > uint64(MAX_TAGS):
            break
        if terms[at] != 0 and not _contains(tags, first, last, terms[at]):
            tags[last] = terms[at]
            last += _ONE
    return last


@kernel(
    int64,
    read(uint32),
    read(uint32, 2),
    read(uint32),
    read(uint32, 2),
    read(types.boolean),
    write(uint32),
    write(uint64),
)
def _write_first_tags(text, text_bounds, lists, list_bounds, is_timed, tags, lengths):  # type: ignore[no-untyped-def]
    """Write the first distinct tags of each row, from text and list. Return how many rows have more."""
    end, capped = _ZERO, int64(0)
    for row in range(uint64(lengths.size)):
        if not is_timed[row]:
            continue
        first = end
        end = _add_tags(text, uint64(text_bounds[row, _ZERO]), uint64(text_bounds[row, _ONE]), tags, first, end)
        end = _add_tags(lists, uint64(list_bounds[row, _ZERO]), uint64(list_bounds[row, _ONE]), tags, first, end)
        if end - first > uint64(MAX_TAGS):
            capped += 1
            end = first + uint64(MAX_TAGS)
        lengths[row] = end - first
    return capped
