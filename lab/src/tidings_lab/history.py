"""History of feeds over months: every document with something new, and when it was published.

The real history if present (`feed_history.zip`), otherwise a generated one.
"""

from __future__ import annotations

import csv
import gzip
import io
import zipfile
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

import numpy as np
from numpy.typing import NDArray

from tidings_lab import datasets

HISTORY = "feed_history.zip"
DAY_S = 86_400.0
_BEGIN = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
_GENERATED_FEEDS, _GENERATED_DAYS, _GENERATED_ITEMS = 6, 20, 10  # items per document
_WORDS = "storm flood river bridge council vote game coast market harbour train strike film award school fire".split()


class Snapshot(NamedTuple):
    """A document that is valid from this time on."""

    at: float
    document: bytes


class Item(NamedTuple):
    """An article and the time of its publication."""

    at: float
    guid: str
    link: str
    title: str


@dataclass(frozen=True, slots=True)
class RecordedFeed:
    """A feed: its documents by time, its items, and the times of the recorded visits."""

    name: str
    snapshots: list[Snapshot]
    items: list[Item]  # published after the first visit
    visited_at: list[float]

    def document(self, at: float) -> bytes | None:
        """Return the document at a time; None before the first one."""
        number = bisect_right(self.snapshots, at, key=lambda snapshot: snapshot.at)
        return self.snapshots[number - 1].document if number else None

    @property
    def days(self) -> float:
        return (self.visited_at[-1] - self.visited_at[0]) / DAY_S


@dataclass(frozen=True, slots=True)
class FeedHistory:
    """Feeds with more than one visit, and their source."""

    feeds: list[RecordedFeed]
    source: str
    note: str = ""

    def document_bytes(self) -> NDArray[np.float64]:
        """Return the sizes of all documents."""
        return np.array([len(snapshot.document) for feed in self.feeds for snapshot in feed.snapshots], np.float64)

    def articles_per_feed_day(self) -> float:
        return sum(len(feed.items) for feed in self.feeds) / sum(feed.days for feed in self.feeds)

    def to_dict(self) -> dict[str, object]:
        items = sum(len(feed.items) for feed in self.feeds)
        return {"posts": items, "source": self.source, "note": self.note}


def load_history(seed: int) -> FeedHistory:
    """Load the real history, or generate one if it is missing."""
    folder = datasets.data_folder()
    if folder is not None and (folder / HISTORY).is_file():
        return FeedHistory(list(_read(folder / HISTORY)), HISTORY)
    note = "generated history, because the real one is missing: do not compare these numbers"
    return FeedHistory([_generate(number, seed) for number in range(_GENERATED_FEEDS)], f"generated, seed {seed}", note)


def _read(path: Path) -> Iterator[RecordedFeed]:
    with zipfile.ZipFile(path) as archive:
        visited_at, items = defaultdict[str, list[float]](list), defaultdict[str, list[Item]](list)
        for row in _rows(archive, "crawls.tsv"):
            visited_at[row["feed"]].append(_seconds(row["crawl_time"]))
        for row in _rows(archive, "items.tsv"):
            if row["first_crawl"] == "0":
                items[row["feed"]].append(Item(_seconds(row["first_seen"]), row["guid"], row["link"], row["title"]))
        documents = defaultdict[str, list[Snapshot]](list)
        for name in archive.namelist():
            if name.startswith("snapshots/") and name.endswith(".xml.gz"):
                _, feed, file = name.split("/")
                documents[feed].append(Snapshot(float(file.partition(".")[0]), gzip.decompress(archive.read(name))))
    for feed in sorted(visited_at):
        if len(visited_at[feed]) > 1 and documents[feed]:
            yield RecordedFeed(feed, sorted(documents[feed]), sorted(items[feed]), sorted(visited_at[feed]))


def _rows(archive: zipfile.ZipFile, name: str) -> Iterator[dict[str, str]]:
    with archive.open(name) as file:
        yield from csv.DictReader(io.TextIOWrapper(file, "utf-8"), delimiter="\t")


def _seconds(written: str) -> float:
    return datetime.fromisoformat(written).timestamp()


def _generate(number: int, seed: int) -> RecordedFeed:
    """Generate a feed with random items, between 0.2 and 3 per day, and hourly visits."""
    rng = np.random.default_rng([seed, 70, number])
    visited_at = (_BEGIN + np.arange(0, _GENERATED_DAYS * DAY_S, 3_600.0)).tolist()
    count = max(1, rng.poisson(_GENERATED_DAYS * (0.2, 0.5, 1.0, 3.0)[number % 4]))
    times = np.sort(rng.uniform(_BEGIN + 3_600, visited_at[-1], count)).tolist()
    before = [_BEGIN - day * DAY_S for day in range(_GENERATED_ITEMS, 0, -1)]
    links = [f"https://feed{number}.example/{place}" for place in range(len(before) + len(times))]
    texts = [" ".join(rng.choice(_WORDS, 40)) for _ in links]
    dated = zip([*before, *times], links, texts, strict=True)
    all_items = [Item(at, link, link, text[:40]) for at, link, text in dated]
    snapshots = []
    for shown in range(len(before), len(all_items) + 1):
        newest = list(zip(all_items, texts, strict=True))[max(0, shown - _GENERATED_ITEMS) : shown]
        at = _BEGIN if shown == len(before) else all_items[shown - 1].at
        snapshots.append(Snapshot(at, _document(number, newest[::-1])))
    return RecordedFeed(f"feed_{number}", snapshots, all_items[len(before) :], visited_at)


def _document(number: int, shown: list[tuple[Item, str]]) -> bytes:
    entries = "".join(
        f"<item><guid>{item.guid}</guid><link>{item.guid}</link><title>{escape(item.title)}</title>"
        f"<pubDate>{format_datetime(datetime.fromtimestamp(item.at, UTC))}</pubDate>"
        f"<description>{escape(text)}</description></item>"
        for item, text in shown
    )
    head = f"<title>Feed {number}</title><link>https://feed{number}.example/</link><description>made up</description>"
    return f'<?xml version="1.0"?><rss version="2.0"><channel>{head}{entries}</channel></rss>'.encode()
