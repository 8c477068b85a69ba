"""Posts that tell what a story is about: those with all tags of its lead, written in its window."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tidings.correlate.tag_parser import Parsed
from tidings.correlate.trends import Story


def telling(parsed: Parsed, story: Story) -> NDArray[np.intp]:
    """The rows of a batch with all tags of the lead, in its window."""
    lead, posts = {tag.encode() for tag in story.lead.tags}, parsed.posts
    wanted = [number for number, name in enumerate(parsed.names.split(b"\n")) if name in lead]
    if len(wanted) < len(lead):
        return np.zeros(0, np.intp)
    rows = np.repeat(np.arange(len(posts)), np.diff(posts.starts).astype(np.int64))
    has = np.bincount(rows, np.isin(posts.tags, wanted), len(posts)) == len(wanted)
    inside = (posts.times >= story.lead.window_start_us) & (posts.times < story.lead.window_end_us)
    return parsed.rows[np.flatnonzero(has & inside)]
