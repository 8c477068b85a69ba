"""Emerging topics: sets of tags whose correlation is not what its past led to expect, put together into stories.

As in enBlogue, the correlation of a set of tags is predicted from its recent past, and the error of the prediction is
what makes it emerge. An error counts as the number of posts it stands for: the set's tags are in `union` posts, of
which `predicted · union` were expected to have all of them, and `support` do. The score is how many more that is, in
standard deviations of such a count, so that a jump of two posts from nothing is not mistaken for a story.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tidings.correlate.coefficients import Coefficients

PAST = 8  # windows that a prediction looks back
_FADING = 0.7  # what a window counts of the one after it
_CANDIDATES = 40  # sets of tags looked at for each story wanted


@dataclass(frozen=True, slots=True)
class Emerging:
    """A set of tags in a window: what was expected of it, and what came."""

    tags: list[str]
    window_start_us: int
    window_end_us: int
    jaccard: float
    predicted: float
    support: int
    union: int
    score: float


@dataclass(frozen=True, slots=True)
class Story:
    """The set of tags that emerges most, and others of the same window that share tags with it."""

    lead: Emerging
    others: list[Emerging] = field(default_factory=list)

    @property
    def tags(self) -> list[str]:
        """All tags, those of the most posts first."""
        weight: dict[str, int] = {}
        for one in (self.lead, *self.others):
            for tag in one.tags:
                weight[tag] = max(weight.get(tag, 0), one.support)
        return sorted(weight, key=lambda tag: (tag not in self.lead.tags, -weight[tag], tag))


def trends(found: Coefficients, since_us: int | None, until_us: int | None, top: int) -> list[Story]:
    """The stories of the windows that end after `since_us`, the strongest first; without it, of the last window.

    A story is told once: sets of tags that share two with one that was told before belong to it.
    """
    if not len(found):
        return []
    ends = np.unique(found.ends_us)
    wanted = ends[(ends > since_us) if since_us is not None else (ends == ends[-1])]
    if until_us is not None:
        wanted = wanted[wanted <= until_us]
    emerging: list[Emerging] = []
    for end in wanted.tolist():
        emerging += _emerging(found, end, int(ends[0]), top * _CANDIDATES)
    emerging.sort(key=lambda one: (-one.score, one.window_end_us, one.tags))
    return _stories(emerging, top)


def _emerging(found: Coefficients, end: int, first_end: int, most: int) -> list[Emerging]:
    """The sets of tags of one window that came up more than predicted; nothing is predicted without a past."""
    now = np.flatnonzero(found.ends_us == end)
    if not len(now) or end == first_end:
        return []
    predicted = _predicted(found, now, end, first_end)
    expected = predicted * found.union[now]
    scores = (found.support[now] - expected) / np.sqrt(expected + 1)
    best = np.argsort(-scores, kind="stable")[:most]
    return [_as_emerging(found, int(now[at]), float(predicted[at]), float(scores[at])) for at in best if scores[at] > 0]


def _as_emerging(found: Coefficients, row: int, predicted: float, score: float) -> Emerging:
    support, union = int(found.support[row]), int(found.union[row])
    times = int(found.starts_us[row]), int(found.ends_us[row])
    return Emerging(found.tags_of(row), *times, support / union, predicted, support, union, score)


def _predicted(found: Coefficients, now: NDArray[np.intp], end: int, first_end: int) -> NDArray[np.float64]:
    """A mean of the coefficients in the windows before this one, side by side, the nearest counting most.

    A set of tags that was not reported had too few posts to count: 0.
    """
    length = int(found.ends_us[now[0]] - found.starts_us[now[0]])
    sizes = int(found.sets.max()) + 1
    total, weights = np.zeros(sizes), 0.0
    for back in range(1, PAST + 1):
        before = end - back * length
        if before < first_end:
            break
        rows = np.flatnonzero(found.ends_us == before)
        total[found.sets[rows]] += _FADING**back * found.jaccard[rows]
        weights += _FADING**back
    return total[found.sets[now]] / weights if weights else np.zeros(len(now))


def _stories(emerging: list[Emerging], top: int) -> list[Story]:
    stories: list[Story] = []
    for one in emerging:
        home = next((story for story in stories if _belongs(one, story)), None)
        if home is not None:
            if one.window_end_us == home.lead.window_end_us:
                home.others.append(one)
        elif len(stories) < top:
            stories.append(Story(one))
    return stories


def _belongs(one: Emerging, story: Story) -> bool:
    """In its window, what shares a tag with the lead or two with the story; in others what shares two with the lead."""
    shared = len(set(one.tags) & set(story.lead.tags))
    if one.window_end_us != story.lead.window_end_us:
        return shared >= 2
    return shared >= 1 or len(set(one.tags) & {tag for other in story.others for tag in other.tags}) >= 2


@dataclass(frozen=True, slots=True)
class Related:
    """Tags that go together with a given one."""

    tags: list[str]
    windows: int
    support: int
    union: int

    @property
    def jaccard(self) -> float:
        return self.support / self.union


def related(found: Coefficients, tag: str, since_us: int | None, top: int) -> list[Related]:
    """What goes together with a tag, over all windows that end after `since_us`: pairs and larger sets.

    Counts of windows add up. Of windows that overlap those count that lie side by side, the last one among them.
    """
    return sorted(_with(found, tag, since_us), key=lambda one: (-one.jaccard, -one.support, one.tags))[:top]


def _with(found: Coefficients, tag: str, since_us: int | None) -> Iterator[Related]:
    if tag not in found.names:
        return
    number = found.names.index(tag)
    rows = np.repeat(np.arange(len(found)), np.diff(found.starts).astype(np.int64))[found.tags == number]
    rows = rows[found.ends_us[rows] > since_us] if since_us is not None else rows
    back = int(found.ends_us.max()) - found.ends_us[rows]
    rows = rows[back % (found.ends_us[rows] - found.starts_us[rows]) == 0]
    sets, first, inverse = np.unique(found.sets[rows], return_index=True, return_inverse=True)
    support = np.bincount(inverse, found.support[rows], len(sets)).astype(np.int64)
    union = np.bincount(inverse, found.union[rows], len(sets)).astype(np.int64)
    windows = np.bincount(inverse, minlength=len(sets))
    for at in range(len(sets)):
        others = [name for name in found.tags_of(int(rows[first[at]])) if name != tag]
        yield Related(others, int(windows[at]), int(support[at]), int(union[at]))
