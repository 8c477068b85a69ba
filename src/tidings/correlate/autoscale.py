"""How many partitions are in use: as many as the load needs, at most as many as were configured."""

from __future__ import annotations

import math

_SPARE = 0.75  # partitions are given back only when fewer would be filled to this share


def partitions_for(posts_in_window: int, posts_a_partition: int | None, in_use: int, most: int) -> int:
    """The number of partitions to use now that so many posts lie in the window.

    More at once when they are needed, fewer only when there is room to spare, so that a load around a
    boundary does not make the number go up and down.
    """
    if posts_a_partition is None:
        return most
    needed = min(most, max(1, math.ceil(posts_in_window / posts_a_partition)))
    if needed >= in_use:
        return needed
    roomy = min(most, max(1, math.ceil(posts_in_window / (posts_a_partition * _SPARE))))
    return min(in_use, roomy)
