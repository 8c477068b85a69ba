"""The parser: which tags a post has. Hashtags in its text, whatever is in its `tags`, and tracked words.

What a hashtag is, and which spellings are one and the same, is for `receive` to say: the compiled tokeniser is asked
for tags only. A tracked word counts as the tag of that name. Of a post with very many tags the first count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numba import int64, types, uint32, uint64
from numpy.typing import NDArray

from tidings.correlate.partition.subset_counts import MAX_TAGS
from tidings.correlate.partition.tagset_trie import grown
from tidings.correlate.posts import TaggedPosts
from tidings.correlate.tag_dictionary import Names, by_first_occurrence
from tidings.errors import InputError
from tidings.jit import inlined, kernel, read, write
from tidings.text.analyzer import Received, Receiver
from tidings.text.arrow_buffers import bytes_of
from tidings.text.reference_analyzer import normalise, stop_words, tokens
from tidings.text.searchable import searchable
from tidings.text.vocabulary import PackedTerms, packed_terms

_MOST_TAGS = 1 << 21  # different ones that a parser remembers before it starts anew
_SIGN = np.uint8(ord("#"))
_ZERO = np.uint64(0)
_ONE = np.uint64(1)


@dataclass(frozen=True, slots=True)
class Parsed:
    """The posts of a batch that have tags; a tag is a place in `names`, which has a line for each.

    `capped` counts posts with too many tags, `rows` says where in the batch the posts stand.
    """

    posts: TaggedPosts
    names: bytes
    capped: int = 0
    rows: NDArray[np.intp] = field(default_factory=lambda: np.zeros(0, np.intp))


class TagNumbers:
    """Numbers for tags, from 1 on; words have none, but for tracked ones, which have that of the tag of their name."""

    def __init__(self, tracked: Sequence[str] = ()) -> None:
        self.names = Names()
        self._tracked: dict[bytes, int] = {}
        for word in tracked:
            found = [token.term for token in tokens(word)]
            if len(found) != 1 or not found[0] or normalise(word) in stop_words():
                raise InputError(f"{word!r} cannot be tracked: it is not one word that counts.")
            (number,) = self.find(packed_terms([f"#{normalise(word.strip())}".encode()])).tolist()
            self._tracked[found[0].encode()] = number

    def find(self, terms: PackedTerms) -> NDArray[np.uint32]:
        """0 for what is no tag."""
        text, begins, ends = np.append(terms.text, np.uint8(0)), terms.starts[:-1], terms.starts[1:]
        is_tag = (text[begins.astype(np.int64)] == _SIGN) & (begins < ends)
        found = np.zeros(len(begins), np.uint32)
        found[is_tag] = self.names.numbers(text, begins[is_tag] + _ONE, ends[is_tag]) + np.uint32(1)
        if self._tracked:
            words = ((place, self._tracked.get(term)) for place, term in enumerate(terms.each()))
            for place, number in words:
                found[place] = number or found[place]
        return found

    def lines(self, numbers: NDArray[np.uint32]) -> bytes:
        """The names of the tags that have these numbers, a line each."""
        return self.names.lines(numbers - np.uint32(1))


class Parser:
    """Turns batches of posts with a `time` (in microseconds) and `text`, `title` or `tags` into tagged ones."""

    def __init__(self, tracked: Sequence[str] = ()) -> None:
        self._tracked = tuple(tracked)
        self._start_anew()

    def _start_anew(self) -> None:
        self._numbers = TagNumbers(self._tracked)
        self._receiver = Receiver(self._numbers)
        self._spellings = Names()  # what stands in `tags`, as it stands there
        self._meant: NDArray[np.uint32] = np.zeros(1 << 10, np.uint32)  # the tag of each

    def parse(self, batch: pa.RecordBatch) -> Parsed:
        """The posts that have both a time and tags, in their order."""
        if len(self._numbers.names) + len(self._spellings) > _MOST_TAGS:
            self._start_anew()
        times = batch.column("time")
        found = [self._said(batch), self._given_tags(batch)]
        tags, lengths, capped = _first(found, times.is_valid().to_numpy(zero_copy_only=False))
        rows = np.flatnonzero(lengths)
        starts = np.concatenate([np.zeros(1, np.uint64), np.cumsum(lengths[rows], dtype=np.uint64)])
        used, local = by_first_occurrence(tags)
        written = times.fill_null(0).to_numpy()[rows]
        return Parsed(TaggedPosts(written, local, starts), self._numbers.lines(used), capped, rows)

    def _said(self, batch: pa.RecordBatch) -> Received | None:
        """The tags in titles and texts."""
        names = [name for name in ("text", "title") if name in batch.schema.names]
        return self._receiver.receive(searchable(batch.select(names))) if "text" in names else None

    def _given_tags(self, batch: pa.RecordBatch) -> Received | None:
        """The tags that posts came with. Each is looked at once; then its spelling is known."""
        if "tags" not in batch.schema.names:
            return None
        lists = batch.column("tags")
        lists = lists.fill_null([]) if lists.null_count else lists
        bounds = np.asarray(lists.offsets).astype(np.uint32)
        text, offsets = bytes_of(lists.values[int(bounds[0]) : int(bounds[-1])])
        known, ends = len(self._spellings), offsets.astype(np.uint64)
        spelt = self._spellings.numbers(text, ends[:-1], ends[1:])
        if len(self._spellings) > known:
            self._learn(self._spellings.since(known), known)
        bounds -= bounds[0]
        return Received(self._meant[spelt], np.column_stack([bounds[:-1], bounds[1:]]))

    def _learn(self, spelt: list[bytes], first: int) -> None:
        """Clean tags exactly as they are cleaned where posts are matched."""
        lists = pa.array([[tag.decode("utf-8", "replace")] for tag in spelt], pa.list_(pa.string()))
        received = self._receiver.receive(
            searchable(pa.record_batch([pa.array([""] * len(spelt)), lists], ["text", "tags"]))
        )
        if first + len(spelt) > len(self._meant):
            self._meant = grown(self._meant, 2 * (first + len(spelt)))
        has_any = np.flatnonzero(received.bounds[:, 0] < received.bounds[:, 1])
        self._meant[first + has_any] = received.terms[received.bounds[has_any, 0]]


def _first(
    found: Sequence[Received | None], is_timed: NDArray[np.bool_]
) -> tuple[NDArray[np.uint32], NDArray[np.uint64], int]:
    """The different tags of each row, how many it has, and how many rows have more than count."""
    rows = len(is_timed)
    nothing = Received(np.zeros(0, np.uint32), np.zeros((rows, 2), np.uint32))
    one, other = (part or nothing for part in found)
    tags, lengths = np.empty(len(one.terms) + len(other.terms), np.uint32), np.zeros(rows, np.uint64)
    capped = _first_tags(one.terms, one.bounds, other.terms, other.bounds, is_timed, tags, lengths)
    return tags[: int(lengths.sum())], lengths, int(capped)


@inlined
def _holds(tags, first, last, tag):  # type: ignore[no-untyped-def]
    found = False
    for at in range(first, last):
        found |= tags[at] == tag
    return found


@inlined
def _add_tags(terms, begin, end, tags, first, last):  # type: ignore[no-untyped-def]
    """Append what is not there yet; where the row ends then. One tag too many is appended, to tell that there is."""
    for at in range(begin, end):
        if last - first > uint64(MAX_TAGS):
            break
        if terms[at] != 0 and not _holds(tags, first, last, terms[at]):
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
def _first_tags(said, said_bounds, given, given_bounds, is_timed, tags, lengths):  # type: ignore[no-untyped-def]
    """The first different tags of each row, said or given, one row after another; how many rows have more."""
    end, capped = _ZERO, int64(0)
    for row in range(uint64(lengths.size)):
        if not is_timed[row]:
            continue
        first = end
        end = _add_tags(said, uint64(said_bounds[row, _ZERO]), uint64(said_bounds[row, _ONE]), tags, first, end)
        end = _add_tags(given, uint64(given_bounds[row, _ZERO]), uint64(given_bounds[row, _ONE]), tags, first, end)
        if end - first > uint64(MAX_TAGS):
            capped += 1
            end = first + uint64(MAX_TAGS)
        lengths[row] = end - first
    return capped
