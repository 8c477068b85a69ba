"""The Disseminator of a stream, which runs batch by batch: its memory is state pages between two batches.

Posts wait until no older ones may arrive (the newest time seen minus the allowed lateness). Then they are routed in
order of time. The state is: the posts of the last window and the waiting ones, by slide; the owners of tags, by plan;
and some counters. Everything else follows from it, so a batch that runs again has the same result.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.correlate import wire
from tidings.correlate.partition.plan import compute_gini
from tidings.correlate.posts import TaggedPosts
from tidings.correlate.settings import CorrelationSettings
from tidings.correlate.state_pages import PageBackend, StatePage, StateStore
from tidings.correlate.tag_parser import ParsedTags
from tidings.correlate.tag_routing_pipeline import Repartition, TagRoutingPipeline, local_planner
from tidings.correlate.tag_vocabulary import TagVocabulary

_MAX_AHEAD_US = 86_400 * 10**6  # a later post has a wrong time; it would make all others late
_NEVER = -(1 << 62)
COUNTER_NAMES = ("rows", "unreadable", "untimed", "capped", "tagged", "late", "ahead")
_LISTED_REPARTITIONS = 5  # all are counted, the last ones are listed


class PackedNotifications(NamedTuple):
    """Notifications to one calculator under one plan, packed."""

    calculator: int
    plan: int
    page: StatePage


class StreamingTagRouter:
    """Opened for one batch with the state of the previous one: `route` its posts, then `dump_state`."""

    def __init__(
        self,
        settings: CorrelationSettings,
        lateness_us: int,
        posts: PageBackend,
        owners: PageBackend,
        state: str | None,
    ) -> None:
        self._settings, self._lateness_us = settings, lateness_us
        before: dict[str, Any] = json.loads(state) if state else {}
        self._released_us = before.get("released_us", _NEVER)
        self._newest_us = before.get("newest_us", _NEVER)
        self._last_slide_of = {int(number): slide for number, slide in before.get("active", {}).items()}
        self._active: list[int] = []
        self._counts = Counter(before.get("counts", {}))
        self._reasons = Counter(before.get("reasons", {}))
        self._last_repartitions: list[dict[str, Any]] = before.get("last", [])
        self._pipeline_state = before.get("dissemination")
        self._vocabulary = TagVocabulary()
        self._posts, self._owners = StateStore(posts), StateStore(owners)
        self._pipeline = TagRoutingPipeline(settings, local_planner(settings))

    def route(self, batch: Sequence[ParsedTags], clock_us: int) -> Iterator[PackedNotifications]:
        """Add the posts of a batch and yield the notifications of those that are due; `clock_us` is the time now."""
        stored = [self._unpack_posts(page) for _, page in self._posts]
        arrived = TaggedPosts.concat([self._vocabulary.renumber_posts(parsed) for parsed in batch])
        accepted = self._reject_by_time(arrived, clock_us)
        self._save_posts(accepted)
        posts = TaggedPosts.concat([*stored, accepted]).sort_by_time()
        before = self._released_us
        self._released_us = max(before, self._newest_us - self._lateness_us)
        oldest, first, last = np.searchsorted(
            posts.times, [before - self._settings.window_us, before, self._released_us]
        ).tolist()
        self._restore(posts.slice(oldest, first))
        if last > first:
            yield from self._route_due(posts.slice(first, last))
        self._delete_expired()

    def add_counts(self, **rows: int) -> None:
        """Add to the counters of rows; see `COUNTER_NAMES`."""
        self._counts.update(rows)

    @property
    def until(self) -> int:
        """Return the slide before which all windows are complete."""
        return int(self._released_us // self._settings.slide_us)

    @property
    def active(self) -> list[int]:
        """Return the calculators that may have posts in a window that was open before the batch."""
        return self._active

    def _reject_by_time(self, posts: TaggedPosts, clock_us: int) -> TaggedPosts:
        is_ahead, is_late = posts.times > clock_us + _MAX_AHEAD_US, posts.times < self._released_us
        self._counts.update(tagged=len(posts), ahead=int(is_ahead.sum()), late=int(is_late.sum()))
        accepted = posts.take(np.flatnonzero(~(is_ahead | is_late)))
        self._newest_us = max(self._newest_us, int(accepted.times.max(initial=_NEVER)))
        return accepted

    def _unpack_posts(self, page: StatePage) -> TaggedPosts:
        return self._vocabulary.renumber_posts(wire.unpack_posts(page.names, pa.py_buffer(page.blob)))

    def _save_posts(self, posts: TaggedPosts) -> None:
        slides = posts.times // self._settings.slide_us
        for slide in np.unique(slides).tolist():
            self._posts.add(slide, self._pack_posts(posts.take(np.flatnonzero(slides == slide))))

    def _pack_posts(self, posts: TaggedPosts) -> StatePage:
        names, tags = self._vocabulary.to_local(posts.tags)
        lines, packed = wire.pack_posts(ParsedTags(TaggedPosts(posts.times, tags, posts.starts), names))
        return StatePage(lines, packed.to_pybytes())

    def _restore(self, recent: TaggedPosts) -> None:
        if self._pipeline_state is not None:
            tag_ids = [self._vocabulary.parse_lines(page.names) for _, page in self._owners]
            owners = np.zeros(len(self._vocabulary), np.uint64)
            for tags, (_, page) in zip(tag_ids, self._owners, strict=True):
                owners[tags] |= wire.unpack_owners(pa.py_buffer(page.blob))
            self._pipeline.restore(self._pipeline_state, owners, recent)

    def _route_due(self, due: TaggedPosts) -> Iterator[PackedNotifications]:
        router = self._pipeline.router
        plan, before = router.plan, router.owners.copy()
        for notifications in chain.from_iterable(self._pipeline.route(due)):
            self._last_slide_of[notifications.calculator] = int(notifications.now[-1])
            names, tags = self._vocabulary.to_local(notifications.tags)
            packed = wire.pack_notifications(replace(notifications, tags=tags))
            yield PackedNotifications(notifications.calculator, notifications.plan, StatePage(names, packed))
        self._save_owners(before if router.plan == plan else before[:0])
        for event in self._pipeline.repartitions:
            self._reasons[_kind_of(event)] += 1
            entry = {"at_us": event.at_us, "reason": event.reason, "partitions": event.partitions}
            self._last_repartitions = [*self._last_repartitions, entry][-_LISTED_REPARTITIONS:]

    def _save_owners(self, before: NDArray[np.uint64]) -> None:
        """Save the owners of this plan that are not stored yet."""
        router = self._pipeline.router
        known = np.zeros(len(router.owners), np.uint64)
        known[: len(before)] = before
        if (changed := np.flatnonzero(router.owners != known)).size:
            self._owners.add(router.plan, self._pack_owners(changed))

    def _pack_owners(self, tags: NDArray[np.intp]) -> StatePage:
        names, _ = self._vocabulary.to_local(tags.astype(np.uint32))
        return StatePage(names, wire.pack_owners(self._pipeline.router.owners[tags]))

    def _delete_expired(self) -> None:
        """Delete what neither an open window nor the next plan needs, and compact groups with many pages."""
        settings, router = self._settings, self._pipeline.router
        oldest = (self._released_us - settings.window_us) // settings.slide_us
        self._active = sorted(self._last_slide_of)
        self._last_slide_of = {number: slide for number, slide in self._last_slide_of.items() if slide >= oldest}
        self._posts.delete_groups(lambda slide: slide < oldest)
        self._owners.delete_groups(lambda plan: plan < router.plan)
        for slide in self._posts.groups_to_compact():
            posts = TaggedPosts.concat([self._unpack_posts(page) for page in self._posts.pages_of(slide)])
            self._posts.compact(slide, self._pack_posts(posts))
        if self._owners.groups_to_compact():
            # Tags that no stored post has lose their owners; otherwise their number would grow without limit.
            owned = np.flatnonzero(router.owners)
            is_used = np.zeros(len(self._vocabulary), bool)
            for _, page in self._posts:
                is_used[self._unpack_posts(page).tags] = True
            self._owners.compact(router.plan, self._pack_owners(owned[is_used[owned]]))

    def dump_state(self) -> str:
        """Return the small state that the next batch needs besides the pages. Its keys are a stored format."""
        pipeline_state = self._pipeline.dump_state()
        return json.dumps(
            {
                "released_us": self._released_us,
                "newest_us": self._newest_us,
                "active": self._last_slide_of,
                "counts": self._counts,
                "reasons": self._reasons,
                "last": self._last_repartitions,
                "dissemination": pipeline_state if "reference" in pipeline_state else None,
            }
        )

    def metrics(self) -> dict[str, Any]:
        """Return the metrics since the stream began."""
        router = self._pipeline.router
        sent = router.sent[: self._settings.partitions]
        return {
            **{name: self._counts[name] for name in COUNTER_NAMES},
            "newest_us": self._newest_us if self._newest_us > _NEVER else None,
            "partitions": self._pipeline.partitions,
            "communication": int(sent.sum()) / max(1, router.notified),
            "gini": compute_gini(sent),
            "max_load": int(sent.max(initial=0)) / max(1, int(sent.sum())),
            "caught_up": router.notifications - int(sent.sum()),
            "additions": router.additions,
            "repartitions": dict(self._reasons),
            "last_repartitions": self._last_repartitions,
        }


def _kind_of(event: Repartition) -> str:
    return "scaling" if "posts in the window" in event.reason else event.reason
