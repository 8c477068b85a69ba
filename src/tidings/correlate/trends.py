"""Emerging topics: tag sets whose correlation exceeds the prediction from their past, grouped into stories.

As in enBlogue, the correlation of a tag set is predicted from its recent past, and the prediction error makes it
emerge. The error is measured in posts: the tags are in `union` posts, of which `predicted · union` were expected to
have all of them, and `support` do. The score is the difference in standard deviations of such a count, so a jump from
nothing to two posts is not mistaken for a story.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tidings.correlate.coefficients import Coefficients

PAST_WINDOWS = 8  # that a prediction is based on
_DECAY = 0.7  # weight of a window relative to the next one
_CANDIDATES_PER_STORY = 40


@dataclass(frozen=True, slots=True)
class EmergingTagSet:
    """A tag set in a window, with its predicted and actual coefficient."""

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
    """The tag set with the highest score, and others of the same window that share tags with it."""

    strongest: EmergingTagSet
    others: list[EmergingTagSet] = field(default_factory=list)

    @property
    def tags(self) -> list[str]:
        """Return all tags: first those of the strongest set, each group in descending order of support."""
        weight: dict[str, int] = {}
        for tag_set in (self.strongest, *self.others):
            for tag in tag_set.tags:
                weight[tag] = max(weight.get(tag, 0), tag_set.support)
        return sorted(weight, key=lambda tag: (tag not in self.strongest.tags, -weight[tag], tag))


def find_trends(found: Coefficients, since_us: int | None, until_us: int | None, top: int) -> list[Story]:
    """Return the strongest stories of the windows that end after `since_us`; without it, of the last window.

    A story is reported once: tag sets that share two tags with an earlier story belong to it.
    """
    if not len(found):
        return []
    ends = np.unique(found.ends_us)
    selected = ends[(ends > since_us) if since_us is not None else (ends == ends[-1])]
    if until_us is not None:
        selected = selected[selected <= until_us]
    emerging: list[EmergingTagSet] = []
    for end in selected.tolist():
        emerging += _find_emerging(found, end, int(ends[0]), top * _CANDIDATES_PER_STORY)
    emerging.sort(key=lambda tag_set: (-tag_set.score, tag_set.window_end_us, tag_set.tags))
    return _group_stories(emerging, top)


def _find_emerging(found: Coefficients, end: int, first_end: int, limit: int) -> list[EmergingTagSet]:
    """Return the tag sets of one window with a positive score; the first window has no past to predict from."""
    now = np.flatnonzero(found.ends_us == end)
    if not len(now) or end == first_end:
        return []
    predicted = _predict(found, now, end, first_end)
    expected = predicted * found.union[now]
    scores = (found.support[now] - expected) / np.sqrt(expected + 1)
    best = [at for at in np.argsort(-scores, kind="stable")[:limit] if scores[at] > 0]
    return [_build_emerging(found, int(now[at]), float(predicted[at]), float(scores[at])) for at in best]


def _build_emerging(found: Coefficients, row: int, predicted: float, score: float) -> EmergingTagSet:
    support, union = int(found.support[row]), int(found.union[row])
    times = int(found.starts_us[row]), int(found.ends_us[row])
    return EmergingTagSet(found.tags_of(row), *times, support / union, predicted, support, union, score)


def _predict(found: Coefficients, now: NDArray[np.intp], end: int, first_end: int) -> NDArray[np.float64]:
    """Return the weighted mean of the coefficients in adjacent earlier windows; later ones have more weight.

    A tag set that was not reported had too little support and counts as 0.
    """
    length = int(found.ends_us[now[0]] - found.starts_us[now[0]])
    sizes = int(found.sets.max()) + 1
    total, weights = np.zeros(sizes), 0.0
    for back in range(1, PAST_WINDOWS + 1):
        before = end - back * length
        if before < first_end:
            break
        rows = np.flatnonzero(found.ends_us == before)
        total[found.sets[rows]] += _DECAY**back * found.jaccard[rows]
        weights += _DECAY**back
    return total[found.sets[now]] / weights if weights else np.zeros(len(now))


def _group_stories(emerging: list[EmergingTagSet], top: int) -> list[Story]:
    stories: list[Story] = []
    for tag_set in emerging:
        owner = next((story for story in stories if _belongs(tag_set, story)), None)
        if owner is not None:
            if tag_set.window_end_us == owner.strongest.window_end_us:
                owner.others.append(tag_set)
        elif len(stories) < top:
            stories.append(Story(tag_set))
    return stories


def _belongs(tag_set: EmergingTagSet, story: Story) -> bool:
    """Return whether a tag set is part of a story.

    In the window of the story it must share a tag with the strongest set or two with the story; in another window two
    with the strongest set.
    """
    shared = len(set(tag_set.tags) & set(story.strongest.tags))
    if tag_set.window_end_us != story.strongest.window_end_us:
        return shared >= 2
    return shared >= 1 or len(set(tag_set.tags) & {tag for other in story.others for tag in other.tags}) >= 2


@dataclass(frozen=True, slots=True)
class RelatedTags:
    """Tags that are correlated with a given one."""

    tags: list[str]
    windows: int
    support: int
    union: int

    @property
    def jaccard(self) -> float:
        return self.support / self.union


def find_related(found: Coefficients, tag: str, since_us: int | None, top: int) -> list[RelatedTags]:
    """Return the pairs and larger sets with a tag, over all windows that end after `since_us`.

    The counts of windows are added. Of overlapping windows only adjacent ones count, backwards from the last one.
    """
    related = _collect_related(found, tag, since_us)
    return sorted(related, key=lambda tags: (-tags.jaccard, -tags.support, tags.tags))[:top]


def _collect_related(found: Coefficients, tag: str, since_us: int | None) -> Iterator[RelatedTags]:
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
        yield RelatedTags(others, int(windows[at]), int(support[at]), int(union[at]))
