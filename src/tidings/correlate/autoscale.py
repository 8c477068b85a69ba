"""Choose how many partitions to use: as many as the load needs, up to the configured maximum."""

from __future__ import annotations

import math

_SHRINK_FILL = 0.75  # the number shrinks only if fewer partitions would be filled at most to this fraction


def choose_partition_count(posts_in_window: int, posts_per_partition: int | None, in_use: int, maximum: int) -> int:
    """Return the number of partitions to use for this many posts in the window.

    It grows immediately but shrinks only with spare capacity, so that it does not oscillate at a boundary.
    """
    if posts_per_partition is None:
        return maximum
    needed = min(maximum, max(1, math.ceil(posts_in_window / posts_per_partition)))
    if needed >= in_use:
        return needed
    with_spare = min(maximum, max(1, math.ceil(posts_in_window / (posts_per_partition * _SHRINK_FILL))))
    return min(in_use, with_spare)
