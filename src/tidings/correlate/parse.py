"""The parser: which tags a post has. Hashtags in its text, whatever is in its `tags`, and tracked words.

What a hashtag is, and which spellings are one and the same, is for `receive` to say: the compiled tokeniser is asked
for tags only. A tracked word counts as the tag of that name. Of a post with very many tags the first count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import int64, types, uint32, uint64
from numpy.typing import NDArray

from tidings.correlate.posts import TaggedPosts
from tidings.errors import InputError
from tidings.jit import inlined, kernel, read, write
from tidings.partition.tags.subsets import MAX_TAGS
from tidings.receive.clean import normalise, stop_words, tokens
from tidings.receive.compose import searchable
from tidings.receive.receiver import Received, Receiver
from tidings.receive.vocabulary import PackedTerms

_MOST_TAGS = 1 << 21  # different ones that a parser remembers before it starts anew
_ZERO = np.uint64(0)
_ONE = np.uint64(1)


@dataclass(frozen=True, slots=True)
class Parsed:
    """The posts of a batch that have tags; a tag is a place in `names`.

    `capped` counts posts with too many tags, `rows` says where in the batch the posts stand.
    """

    posts: TaggedPosts
    names: list[bytes]
    capped: int = 0
    rows: NDArray[np.intp] = field(default_factory=lambda: np.zeros(0, np.intp))


class TagNumbers:
    """Numbers for tags, from 1 on; words have none, but for tracked ones, which have that of the tag of their name."""

    def __init__(self, tracked: Sequence[str] = ()) -> None:
        self.names: list[bytes] = [b""]
        self._numbers: dict[bytes, int] = {}
        for word in tracked:
            found = [token.term for token in tokens(word)]
            if len(found) != 1 or not found[0] or normalise(word) in stop_words():
                raise InputError(f"{word!r} cannot be tracked: it is not one word that counts.")
            self._numbers[found[0].encode()] = self._number(f"#{normalise(word.strip())}".encode())

    def find(self, terms: PackedTerms) -> NDArray[np.uint32]:
        known = self._numbers
        each = terms.each()
        return np.fromiter((known.get(term) or self._number(term) for term in each), np.uint32, len(each))

    def _number(self, term: bytes) -> int:
        """0 for what is no tag."""
        if not term.startswith(b"#"):
            return 0
        if term not in self._numbers:
            self._numbers[term] = len(self.names)
            self.names.append(term[1:])
        return self._numbers[term]


class Parser:
    """Turns batches of posts with a `time` (in microseconds) and `text`, `title` or `tags` into tagged ones."""

    def __init__(self, tracked: Sequence[str] = ()) -> None:
        self._tracked = tuple(tracked)
        self._start_anew()

    def _start_anew(self) -> None:
        self._numbers = TagNumbers(self._tracked)
        self._receiver = Receiver(self._numbers)
        self._given: dict[bytes | None, int] = {None: 0}  # what stands in `tags`, as it stands there

    def parse(self, batch: pa.RecordBatch) -> Parsed:
        """The posts that have both a time and tags, in their order."""
        if len(self._numbers.names) + len(self._given) > _MOST_TAGS:
            self._start_anew()
        times = batch.column("time")
        found = [self._said(batch), self._given_tags(batch)]
        tags, lengths, capped = _first(found, times.is_valid().to_numpy(zero_copy_only=False))
        rows = np.flatnonzero(lengths)
        starts = np.concatenate([np.zeros(1, np.uint64), np.cumsum(lengths[rows], dtype=np.uint64)])
        used, local = _by_first_occurrence(tags)
        names = [self._numbers.names[number] for number in used.tolist()]
        written = times.fill_null(0).to_numpy()[rows]
        return Parsed(TaggedPosts(written, local, starts), names, capped, rows)

    def _said(self, batch: pa.RecordBatch) -> Received | None:
        """The tags in titles and texts."""
        names = [name for name in ("text", "title") if name in batch.schema.names]
        return self._receiver.receive(searchable(batch.select(names))) if "text" in names else None

    def _given_tags(self, batch: pa.RecordBatch) -> Received | None:
        """The tags that posts came with. Each is looked at once; then its spelling is known."""
        if "tags" not in batch.schema.names:
            return None
        lists = batch.column("tags").fill_null([])
        encoded = lists.flatten().cast(pa.binary()).dictionary_encode()
        spelt = encoded.dictionary.to_pylist()
        if new := [tag for tag in spelt if tag not in self._given]:
            self._learn(new)
        known = np.array([*(self._given[tag] for tag in spelt), 0], np.uint32)
        ends = np.cumsum(pc.list_value_length(lists).to_numpy(zero_copy_only=False), dtype=np.uint32)
        bounds = np.column_stack([np.concatenate([np.zeros(1, np.uint32), ends[:-1]]), ends])
        places = encoded.indices.fill_null(len(spelt)).to_numpy()
        return Received(known[places], bounds)

    def _learn(self, spelt: list[bytes]) -> None:
        """Clean tags exactly as they are cleaned where posts are matched."""
        lists = pa.array([[tag.decode("utf-8", "replace")] for tag in spelt], pa.list_(pa.string()))
        received = self._receiver.receive(
            searchable(pa.record_batch([pa.array([""] * len(spelt)), lists], ["text", "tags"]))
        )
        has_any = received.bounds[:, 0] < received.bounds[:, 1]
        numbers = np.zeros(len(spelt), np.uint32)
        numbers[has_any] = received.terms[received.bounds[has_any, 0]]
        self._given.update(zip(spelt, numbers.tolist(), strict=True))


def _by_first_occurrence(tags: NDArray[np.uint32]) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """The different tags, and the place of each among them: the same whatever the parser has met before."""
    used, first, local = np.unique(tags, return_index=True, return_inverse=True)
    order = np.argsort(first)
    places = np.empty(len(order), np.uint32)
    places[order] = np.arange(len(order), dtype=np.uint32)
    return used[order], places[local]


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


class Vocabulary:
    """All tags met so far, numbered from 0 on in the order they were met."""

    def __init__(self, names: Sequence[bytes] = ()) -> None:
        self._numbers = {name: number for number, name in enumerate(names)}

    def __len__(self) -> int:
        return len(self._numbers)

    def names(self) -> list[bytes]:
        return list(self._numbers)

    def numbers(self, names: Sequence[bytes]) -> NDArray[np.uint32]:
        """The number of each of these tags; new ones get the next."""
        known = self._numbers
        return np.fromiter((known.setdefault(name, len(known)) for name in names), np.uint32, len(names))

    def rows(self, names: Sequence[bytes], tags: NDArray[np.uint32], starts: NDArray[np.uint64]) -> NDArray[np.uint32]:
        """Rows of tags, places in `names`, with the numbers these have here, ascending in each row."""
        found = self.numbers(names)[tags]
        _sort_rows(starts, found)
        return found

    def numbered(self, parsed: Parsed) -> TaggedPosts:
        """The posts with the numbers that their tags have here, ascending in each post."""
        posts = parsed.posts
        return TaggedPosts(posts.times, self.rows(parsed.names, posts.tags, posts.starts), posts.starts)

    def spelt(self, tags: NDArray[np.uint32]) -> tuple[list[bytes], NDArray[np.uint32]]:
        """The names of the tags that occur, and the tags as places in them."""
        used, local = _by_first_occurrence(tags)
        names = self.names()
        return [names[tag] for tag in used.tolist()], local


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


@kernel(int64, read(uint64), write(uint32))
def _sort_rows(starts, tags):  # type: ignore[no-untyped-def]
    for row in range(uint64(starts.size - 1)):
        first = starts[row]
        for at in range(first + _ONE, starts[row + _ONE]):
            tag, place = tags[at], uint64(at)
            while place > first and tags[place - _ONE] > tag:
                tags[place] = tags[place - _ONE]
                place -= _ONE
            tags[place] = tag
    return int64(0)
