"""Estimate how many posts per day a query matches, from an hourly sample of the last week.

The store keeps only posts with matches, so it cannot answer this for terms that no subscription has.
"""

from __future__ import annotations

import json
import logging
import math
import random
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from tidings.atomic_io import write_atomically
from tidings.log import Event
from tidings.matching.brute_force import conjunction_holds
from tidings.query.dnf import Conjunction, Has, Phrase, Query
from tidings.text.reference_analyzer import AnalyzedText, analyze
from tidings.text.searchable import join_searchable

HOUR_S = 3600.0
_KEPT_HOURS = 7 * 24
_POSTS_PER_HOUR = 100
_MIN_HISTORY_S = 60.0  # shorter histories count as this long: two posts in a second are not a million per week
LOG = logging.getLogger("tidings.web")
_SAMPLED_FIELDS = ("text", "title", "tags", "lat", "lon")
_MAX_CHARACTERS, _MAX_TAGS, _MAX_TAG_CHARACTERS = 4_000, 20, 100  # per post: analyzed text takes 30 times the memory
_MAX_WORK = 300_000  # conjunctions evaluated per estimate: up to a fifth of a second
_PHRASE_TERMS_PER_WORK = 6  # terms scanned for a phrase that cost as much as one conjunction


class VolumeEstimate(NamedTuple):
    """Expected matches and posts per day; None before the first post."""

    matches_per_day: float | None
    posts_per_day: float | None
    hours: float
    sampled_posts: int


class _SampledPost(NamedTuple):
    fields: dict[str, Any]
    analyzed: AnalyzedText
    lat: float | None
    lon: float | None


@dataclass(slots=True)
class _Hour:
    """A uniform sample of the ``seen`` posts of one hour."""

    seen: int = 0
    sample: list[_SampledPost] = field(default_factory=list)
    is_saved: bool = True


class VolumeEstimator:
    """The sample, in memory and in a folder, so that it survives a restart."""

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        self._folder, self._now = folder, clock
        self._random = random.Random(0)
        self._lock = threading.Lock()
        self._since: float | None = None
        self._hours: dict[int, _Hour] = {}

    def add_posts(self, lines: Iterable[str | bytes]) -> None:
        """Add posts that arrived now, as JSON lines."""
        now = self._now()
        with self._lock:
            hour = self._hours.setdefault(int(now // HOUR_S), _Hour())
            self._since = now if self._since is None else self._since
            for line in lines:
                hour.seen += 1
                slot = len(hour.sample)
                if slot >= _POSTS_PER_HOUR:
                    slot = self._random.randrange(hour.seen)
                if slot < _POSTS_PER_HOUR and (post := _parse_post(line)) is not None:
                    hour.sample[slot : slot + 1] = [post]
            hour.is_saved = False
            for old in [number for number in self._hours if number <= now // HOUR_S - _KEPT_HOURS]:
                del self._hours[old]

    def estimate(self, query: Query) -> VolumeEstimate:
        """Estimate matches per day from the fraction of each hour's sample that the query matches."""
        with self._lock:
            hours = [(hour.seen, list(hour.sample)) for hour in self._hours.values() if hour.sample]
            since = self._since
        if not hours or since is None:
            return VolumeEstimate(None, None, 0.0, 0)
        tried = _limit_work(query, [(seen / len(sample), post) for seen, sample in hours for post in sample])
        posts = sum(seen for seen, _ in hours)
        words = [(_required_words(conjunction), conjunction) for conjunction in query.conjunctions]
        matched = sum(weight for weight, post in tried if _is_match(words, post))
        matches = posts * matched / sum(weight for weight, _ in tried)
        history_s = max(min(self._now() - since, _KEPT_HOURS * HOUR_S), _MIN_HISTORY_S)
        days = history_s / 24 / HOUR_S
        return VolumeEstimate(matches / days, posts / days, history_s / HOUR_S, len(tried))

    def load(self) -> None:
        """Load what an earlier run saved; unreadable files are skipped."""
        for file in sorted(self._folder.glob("*.json")):
            try:
                saved = json.loads(file.read_bytes())
                sample = [post for fields in saved["posts"] if (post := _parse_post(json.dumps(fields))) is not None]
                hour, since = int(file.stem), float(saved["since"])
                seen = int(saved["seen"])
            except (OSError, ValueError, KeyError, TypeError):
                continue
            with self._lock:
                self._hours[hour] = _Hour(seen, sample)
                self._since = min(since, self._since or since)

    def save(self) -> None:
        """Write changed hours, one file each, and delete old ones; retry later if the disk is full."""
        with self._lock:
            changed = {number: hour for number, hour in self._hours.items() if not hour.is_saved}
            contents = {number: (hour.seen, [post.fields for post in hour.sample]) for number, hour in changed.items()}
            for hour in changed.values():
                hour.is_saved = True
            oldest, since = min(self._hours, default=0), self._since
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            for number, (seen, posts) in contents.items():
                text = json.dumps({"since": since, "seen": seen, "posts": posts})
                write_atomically(self._folder / f"{number}.json", text)
            for file in self._folder.glob("*.json"):
                if file.stem.isdigit() and int(file.stem) < oldest:
                    file.unlink(missing_ok=True)
        except OSError as error:
            LOG.error(Event("volume sample not saved", error=error))
            for hour in changed.values():
                hour.is_saved = False


def _required_words(conjunction: Conjunction) -> frozenset[str]:
    return frozenset(literal.term for literal in conjunction.required if isinstance(literal, Has))


def _is_match(conjunctions: list[tuple[frozenset[str], Conjunction]], post: _SampledPost) -> bool:
    """Return whether a conjunction holds. Comparing its words first is five times as fast for most queries."""
    text = post.analyzed
    return any(
        words <= text.terms and conjunction_holds(conjunction, text, post.lat, post.lon)
        for words, conjunction in conjunctions
    )


def _limit_work(query: Query, posts: list[tuple[float, _SampledPost]]) -> list[tuple[float, _SampledPost]]:
    """Return a random part of the weighted posts, small enough to evaluate the query in a fraction of a second."""
    literals = [literal for part in query.conjunctions for literal in (*part.required, *part.forbidden)]
    phrases = sum(isinstance(literal, Phrase) for literal in literals) / _PHRASE_TERMS_PER_WORK
    work = sum(len(query.conjunctions) + phrases * len(post.analyzed.sequence) for _, post in posts)
    return posts if work <= _MAX_WORK else random.Random(0).sample(posts, math.ceil(len(posts) * _MAX_WORK / work))


def _parse_post(line: str | bytes) -> _SampledPost | None:
    """Parse and analyze a JSON line; return None if it is not a post."""
    try:
        post = json.loads(line)
        fields = _shorten({name: post[name] for name in _SAMPLED_FIELDS if post.get(name) is not None})
        batch = pa.RecordBatch.from_pylist([{"text": "", "title": "", "tags": [], **fields}], _SCHEMA)
        lat, lon = (None if fields.get(name) is None else float(fields[name]) for name in ("lat", "lon"))
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError, pa.ArrowException):
        return None
    return _SampledPost(fields, analyze(join_searchable(batch)[0].as_py()), lat, lon)


def _shorten(fields: dict[str, Any]) -> dict[str, Any]:
    """Truncate long fields, because a week of posts stays in memory."""
    for name in ("text", "title"):
        if isinstance(fields.get(name), str):
            fields[name] = fields[name][:_MAX_CHARACTERS]
    if isinstance(fields.get("tags"), list):
        fields["tags"] = [tag and tag[:_MAX_TAG_CHARACTERS] for tag in fields["tags"][:_MAX_TAGS]]
    return fields


_SCHEMA = pa.schema([("text", pa.string()), ("title", pa.string()), ("tags", pa.list_(pa.string()))])
