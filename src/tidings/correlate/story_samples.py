"""Find posts that illustrate a story: those with all tags of its strongest tag set, in its window."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tidings.correlate.tag_parser import ParsedTags
from tidings.correlate.trends import Story


def find_story_posts(parsed: ParsedTags, story: Story) -> NDArray[np.intp]:
    """Return the rows of a batch with all tags of the strongest tag set, in its window."""
    names, posts = {tag.encode() for tag in story.strongest.tags}, parsed.posts
    tags = [number for number, name in enumerate(parsed.names.split(b"\n")) if name in names]
    if len(tags) < len(names):
        return np.zeros(0, np.intp)
    rows = np.repeat(np.arange(len(posts)), np.diff(posts.starts).astype(np.int64))
    has_all = np.bincount(rows, np.isin(posts.tags, tags), len(posts)) == len(tags)
    inside = (posts.times >= story.strongest.window_start_us) & (posts.times < story.strongest.window_end_us)
    return parsed.rows[np.flatnonzero(has_all & inside)]
