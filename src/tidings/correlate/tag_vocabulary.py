"""The tags of a run, wherever they come from: batches and pages have numbers of their own, and the names with them."""

from __future__ import annotations

import numpy as np
from numba import int64, uint32, uint64
from numpy.typing import NDArray

from tidings.correlate.posts import TaggedPosts
from tidings.correlate.tag_dictionary import Names, by_first_occurrence
from tidings.correlate.tag_parser import Parsed
from tidings.jit import kernel, read, write

_ONE = np.uint64(1)


class Vocabulary(Names):
    """All tags met so far, numbered from 0 on in the order they were met."""

    def rows(self, lines: bytes, tags: NDArray[np.uint32], starts: NDArray[np.uint64]) -> NDArray[np.uint32]:
        """Rows of tags, places in `lines`, with the numbers these have here, ascending in each row."""
        found = self.of_lines(lines)[tags]
        _sort_rows(starts, found)
        return found

    def numbered(self, parsed: Parsed) -> TaggedPosts:
        """The posts with the numbers that their tags have here, ascending in each post."""
        posts = parsed.posts
        return TaggedPosts(posts.times, self.rows(parsed.names, posts.tags, posts.starts), posts.starts)

    def spelt(self, tags: NDArray[np.uint32]) -> tuple[bytes, NDArray[np.uint32]]:
        """The names of the tags that occur, a line each, and the tags as places in them."""
        used, local = by_first_occurrence(tags)
        return self.lines(used), local


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
