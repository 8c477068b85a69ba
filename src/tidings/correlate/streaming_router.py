"""The disseminator of a stream, batch by batch: what it must remember lies on shelves between two batches.

Posts wait until none may come any more that is older (the newest time seen, less the lateness allowed); then they are
disseminated in the order of time. Kept are the posts of the last window and those that wait, by slide; the owners of
tags, by plan; and some counts. All else follows from these, so a batch that is run again does the same again.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidings.correlate import wire
from tidings.correlate.partition.plan import gini
from tidings.correlate.posts import TaggedPosts
from tidings.correlate.settings import Settings
from tidings.correlate.state_pages import Book, Page, Shelf
from tidings.correlate.tag_parser import Parsed
from tidings.correlate.tag_routing_pipeline import Dissemination, Repartition, in_this_process
from tidings.correlate.tag_vocabulary import Vocabulary

_AHEAD_US = 86_400 * 10**6  # a post from later than tomorrow would make all others late: its time is wrong
_NEVER = -(1 << 62)
COUNTED = ("rows", "unreadable", "untimed", "capped", "tagged", "late", "ahead")
_TOLD_OF = 5  # repartitions that are listed; all are counted


class Told(NamedTuple):
    """Notifications to one calculator under one plan, packed."""

    calculator: int
    plan: int
    page: Page


class LiveDissemination:
    """Opened for one batch: `take` its posts, then keep what `kept` says until the next."""

    def __init__(self, settings: Settings, lateness_us: int, posts: Shelf, owners: Shelf, kept: str | None) -> None:
        self._settings, self._lateness_us = settings, lateness_us
        before: dict[str, Any] = json.loads(kept) if kept else {}
        self._released_us = before.get("released_us", _NEVER)
        self._newest_us = before.get("newest_us", _NEVER)
        self._active = {int(number): slide for number, slide in before.get("active", {}).items()}
        self._closing: list[int] = []
        self._counts = Counter(before.get("counts", {}))
        self._reasons = Counter(before.get("reasons", {}))
        self._last: list[dict[str, Any]] = before.get("last", [])
        self._was = before.get("dissemination")
        self._vocabulary = Vocabulary()
        self._posts, self._owners = Book(posts), Book(owners)
        self._dissemination = Dissemination(settings, in_this_process(settings))

    def take(self, arrived: Sequence[Parsed], clock_us: int) -> Iterator[Told]:
        """What calculators must be told when these posts have come; `clock_us` is when that was."""
        waiting = [self._unpacked(page) for _, page in self._posts]
        fresh = self._on_time(TaggedPosts.together([self._vocabulary.numbered(one) for one in arrived]), clock_us)
        self._keep_posts(fresh)
        posts = TaggedPosts.together([*waiting, fresh]).in_order()
        before = self._released_us
        self._released_us = max(before, self._newest_us - self._lateness_us)
        oldest, first, last = np.searchsorted(
            posts.times, [before - self._settings.window_us, before, self._released_us]
        ).tolist()
        self._restore(posts.slice(oldest, first))
        if last > first:
            yield from self._disseminated(posts.slice(first, last))
        self._forget()

    def count(self, **rows: int) -> None:
        """Add to what is told of the rows that came."""
        self._counts.update(rows)

    @property
    def until(self) -> int:
        """The slide before which all windows are complete."""
        return int(self._released_us // self._settings.slide_us)

    @property
    def active(self) -> list[int]:
        """The calculators that may have posts in a window which was open before."""
        return self._closing

    def _on_time(self, posts: TaggedPosts, clock_us: int) -> TaggedPosts:
        is_ahead, is_late = posts.times > clock_us + _AHEAD_US, posts.times < self._released_us
        self._counts.update(tagged=len(posts), ahead=int(is_ahead.sum()), late=int(is_late.sum()))
        kept = posts.take(np.flatnonzero(~(is_ahead | is_late)))
        self._newest_us = max(self._newest_us, int(kept.times.max(initial=_NEVER)))
        return kept

    def _unpacked(self, page: Page) -> TaggedPosts:
        return self._vocabulary.numbered(wire.unpack_posts(page.names, wire.buffer(page.blob)))

    def _keep_posts(self, fresh: TaggedPosts) -> None:
        slides = fresh.times // self._settings.slide_us
        for slide in np.unique(slides).tolist():
            self._posts.add(slide, self._page(fresh.take(np.flatnonzero(slides == slide))))

    def _page(self, posts: TaggedPosts) -> Page:
        names, tags = self._vocabulary.spelt(posts.tags)
        joined, packed = wire.pack_posts(Parsed(TaggedPosts(posts.times, tags, posts.starts), names))
        return Page(joined, packed.to_pybytes())

    def _restore(self, recent: TaggedPosts) -> None:
        if self._was is not None:
            numbers = [self._vocabulary.of_lines(page.names) for _, page in self._owners]
            owners = np.zeros(len(self._vocabulary), np.uint64)
            for tags, (_, page) in zip(numbers, self._owners, strict=True):
                owners[tags] |= wire.unpack_owners(wire.buffer(page.blob))
            self._dissemination.restore(self._was, owners, recent)

    def _disseminated(self, due: TaggedPosts) -> Iterator[Told]:
        told = self._dissemination.disseminator
        plan, before = told.plan, told.owners.copy()
        for one in (one for together in self._dissemination.take(due) for one in together):
            self._active[one.calculator] = int(one.now[-1])
            names, tags = self._vocabulary.spelt(one.tags)
            packed = wire.pack_told(replace(one, tags=tags))
            yield Told(one.calculator, one.plan, Page(names, packed))
        self._keep_owners(before if told.plan == plan else before[:0])
        for made in self._dissemination.repartitions:
            self._reasons[_kind(made)] += 1
            self._last = [*self._last, {"at_us": made.at_us, "reason": made.reason, "partitions": made.partitions}]
        self._last = self._last[-_TOLD_OF:]

    def _keep_owners(self, before: NDArray[np.uint64]) -> None:
        """Those of this plan that are not on the shelf yet."""
        told = self._dissemination.disseminator
        known = np.zeros(len(told.owners), np.uint64)
        known[: len(before)] = before
        if (changed := np.flatnonzero(told.owners != known)).size:
            self._owners.add(told.plan, self._owners_page(changed))

    def _owners_page(self, tags: NDArray[np.intp]) -> Page:
        names, _ = self._vocabulary.spelt(tags.astype(np.uint32))
        return Page(names, wire.pack_owners(self._dissemination.disseminator.owners[tags]))

    def _forget(self) -> None:
        """What no open window needs, and neither does the next plan. Groups with many pages are written anew."""
        settings, plan = self._settings, self._dissemination.disseminator.plan
        oldest = (self._released_us - settings.window_us) // settings.slide_us
        self._closing = sorted(self._active)
        self._active = {number: slide for number, slide in self._active.items() if slide >= oldest}
        self._posts.forget(lambda slide: slide < oldest)
        self._owners.forget(lambda one: one < plan)
        for slide in self._posts.crowded():
            self._posts.rewrite(
                slide, self._page(TaggedPosts.together(list(map(self._unpacked, self._posts.of(slide)))))
            )
        if self._owners.crowded():  # tags that are in no post any more lose their owners: else there is no end to them
            owned = np.flatnonzero(self._dissemination.disseminator.owners)
            said = np.zeros(len(self._vocabulary), bool)
            for _, page in self._posts:
                said[self._unpacked(page).tags] = True
            self._owners.rewrite(plan, self._owners_page(owned[said[owned]]))

    def kept(self) -> str:
        """Everything small that is needed for the next batch."""
        return json.dumps(
            {
                "released_us": self._released_us,
                "newest_us": self._newest_us,
                "active": self._active,
                "counts": self._counts,
                "reasons": self._reasons,
                "last": self._last,
                "dissemination": self._kept_dissemination(),
            }
        )

    def _kept_dissemination(self) -> dict[str, Any] | None:
        found = self._dissemination.kept()
        return found if "reference" in found else None

    def figures(self) -> dict[str, Any]:
        """How it goes, since the stream began."""
        told = self._dissemination.disseminator
        sent = told.sent[: self._settings.partitions]
        return {
            **{name: self._counts[name] for name in COUNTED},
            "newest_us": self._newest_us if self._newest_us > _NEVER else None,
            "partitions": self._dissemination.partitions,
            "communication": int(sent.sum()) / max(1, told.notified),
            "gini": gini(sent),
            "max_load": int(sent.max(initial=0)) / max(1, int(sent.sum())),
            "caught_up": told.told - int(sent.sum()),
            "additions": told.additions,
            "repartitions": dict(self._reasons),
            "last_repartitions": self._last,
        }


def _kind(made: Repartition) -> str:
    return "scaling" if "posts in the window" in made.reason else made.reason
