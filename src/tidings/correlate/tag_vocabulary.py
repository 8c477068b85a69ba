"""The tags of a run. Batches and pages have local tag numbers and the names that belong to them."""

from __future__ import annotations

import numpy as np
from numba import int64, uint32, uint64
from numpy.typing import NDArray

from tidings.correlate.posts import TaggedPosts
from tidings.correlate.tag_dictionary import TagDictionary, number_by_first_occurrence
from tidings.correlate.tag_parser import ParsedTags
from tidings.jit import kernel, read, write

_ONE = np.uint64(1)


class TagVocabulary(TagDictionary):
    """All tags seen so far, numbered from 0 in order of first occurrence."""

    def renumber_rows(self, lines: bytes, tags: NDArray[np.uint32], starts: NDArray[np.uint64]) -> NDArray[np.uint32]:
        """Convert rows of tags from line numbers in `lines` to our numbers, ascending in each row."""
        ids = self.parse_lines(lines)[tags]
        _sort_rows(starts, ids)
        return ids

    def renumber_posts(self, parsed: ParsedTags) -> TaggedPosts:
        """Convert the tags of posts to our numbers, ascending in each post."""
        posts = parsed.posts
        return TaggedPosts(posts.times, self.renumber_rows(parsed.names, posts.tags, posts.starts), posts.starts)

    def to_local(self, tags: NDArray[np.uint32]) -> tuple[bytes, NDArray[np.uint32]]:
        """Return the names of the tags that occur, one per line, and the tags as line numbers."""
        used, local = number_by_first_occurrence(tags)
        return self.format_lines(used), local


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
