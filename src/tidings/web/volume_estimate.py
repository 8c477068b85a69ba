"""A sample of the posts of the last days, hour by hour, and from it how much a query would have found.

The store keeps only posts that somebody's subscription matches, which tells nothing of a word nobody has asked for yet.
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

from tidings.atomic_io import write_whole
from tidings.matching.brute_force import evaluate
from tidings.query.dnf import Phrase, Query
from tidings.text.reference_analyzer import CleanText, clean
from tidings.text.searchable import searchable

HOUR_S = 3600.0
_HOURS = 7 * 24
_POSTS_AN_HOUR = 100
_LEAST_S = 60.0  # a shorter past is taken for this long: two posts in a second are no million a month
_LOG = logging.getLogger("tidings.web")
_KEPT = ("text", "title", "tags", "lat", "lon")
_CHARACTERS, _TAGS, _TAG_CHARACTERS = 4_000, 20, 100  # kept of a post: a megabyte of text takes thirty when cleaned
_WORK = 300_000  # conjunctions tried for one estimate: about a second's
_WORDS_A_UNIT = 6  # words looked at for a phrase take as long as one conjunction


class Estimate(NamedTuple):
    """What a query would have found; None of everything before the first post."""

    matches_a_day: float | None
    posts_a_day: float | None
    hours: float
    sampled: int


class _Sampled(NamedTuple):
    said: dict[str, Any]
    clean: CleanText
    lat: float | None
    lon: float | None


@dataclass(slots=True)
class _Hour:
    """``seen`` posts came in this hour, of which every one had the same chance to be in the sample."""

    seen: int = 0
    sample: list[_Sampled] = field(default_factory=list)
    is_saved: bool = True


class History:
    """The sample in memory, and in a folder so that a restart does not forget it."""

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        self._folder, self._now = folder, clock
        self._random = random.Random(0)
        self._lock = threading.Lock()
        self._since: float | None = None
        self._hours: dict[int, _Hour] = {}

    def take(self, lines: Iterable[str | bytes]) -> None:
        """Posts that came just now, as lines of JSON."""
        now = self._now()
        with self._lock:
            hour = self._hours.setdefault(int(now // HOUR_S), _Hour())
            self._since = now if self._since is None else self._since
            for line in lines:
                hour.seen += 1
                place = len(hour.sample)
                if place >= _POSTS_AN_HOUR:
                    place = self._random.randrange(hour.seen)
                if place < _POSTS_AN_HOUR and (sampled := _sampled(line)) is not None:
                    hour.sample[place : place + 1] = [sampled]
            hour.is_saved = False
            for old in [one for one in self._hours if one <= now // HOUR_S - _HOURS]:
                del self._hours[old]

    def estimate(self, query: Query) -> Estimate:
        """Matches a day, by what share of each hour's sample the query holds for."""
        with self._lock:
            hours = [(hour.seen, list(hour.sample)) for hour in self._hours.values() if hour.sample]
            since = self._since
        if not hours or since is None:
            return Estimate(None, None, 0.0, 0)
        tried = _thinned(query, [(seen / len(sample), post) for seen, sample in hours for post in sample])
        posts = sum(seen for seen, _ in hours)
        held = sum(weight for weight, post in tried if _holds(query, post))
        found = posts * held / sum(weight for weight, _ in tried)
        past_s = max(min(self._now() - since, _HOURS * HOUR_S), _LEAST_S)
        days = past_s / 24 / HOUR_S
        return Estimate(found / days, posts / days, past_s / HOUR_S, len(tried))

    def load(self) -> None:
        """What an earlier run has kept; a file that cannot be read is left out."""
        for file in sorted(self._folder.glob("*.json")):
            try:
                told = json.loads(file.read_bytes())
                sample = [one for line in told["posts"] if (one := _sampled(json.dumps(line))) is not None]
                hour, since = int(file.stem), float(told["since"])
                seen = int(told["seen"])
            except (OSError, ValueError, KeyError, TypeError):
                continue
            with self._lock:
                self._hours[hour] = _Hour(seen, sample)
                self._since = min(since, self._since or since)

    def save(self) -> None:
        """Keep what is new, each hour in a file; hours too long ago go. What the disk has no room for waits."""
        with self._lock:
            changed = {number: hour for number, hour in self._hours.items() if not hour.is_saved}
            told = {number: (hour.seen, [one.said for one in hour.sample]) for number, hour in changed.items()}
            for hour in changed.values():
                hour.is_saved = True
            oldest, since = min(self._hours, default=0), self._since
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            for number, (seen, posts) in told.items():
                text = json.dumps({"since": since, "seen": seen, "posts": posts})
                write_whole(self._folder / f"{number}.json", text)
            for file in self._folder.glob("*.json"):
                if file.stem.isdigit() and int(file.stem) < oldest:
                    file.unlink(missing_ok=True)
        except OSError as error:
            _LOG.error("the sample of posts cannot be kept: %s", error)
            for hour in changed.values():
                hour.is_saved = False


def _thinned(query: Query, posts: list[tuple[float, _Sampled]]) -> list[tuple[float, _Sampled]]:
    """Of the posts and their weights so many as the query can be tried on in time, drawn by lot."""
    literals = [one for each in query.conjunctions for one in (*each.required, *each.forbidden)]
    phrases = sum(isinstance(one, Phrase) for one in literals) / _WORDS_A_UNIT
    work = sum(len(query.conjunctions) + phrases * len(post.clean.sequence) for _, post in posts)
    return posts if work <= _WORK else random.Random(0).sample(posts, math.ceil(len(posts) * _WORK / work))


def _holds(query: Query, post: _Sampled) -> bool:
    return evaluate(query, post.clean, post.lat, post.lon)


def _sampled(line: str | bytes) -> _Sampled | None:
    """The post of a line as a query sees it; None if it is none."""
    try:
        post = json.loads(line)
        said = _shortened({name: post[name] for name in _KEPT if post.get(name) is not None})
        batch = pa.RecordBatch.from_pylist([{"text": "", "title": "", "tags": [], **said}], _SCHEMA)
        lat, lon = (None if said.get(name) is None else float(said[name]) for name in ("lat", "lon"))
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError, pa.ArrowException):
        return None
    return _Sampled(said, clean(searchable(batch)[0].as_py()), lat, lon)


def _shortened(said: dict[str, Any]) -> dict[str, Any]:
    """What is kept of what a post says: anybody may say much, and a week of it is held in memory."""
    for name in ("text", "title"):
        if isinstance(said.get(name), str):
            said[name] = said[name][:_CHARACTERS]
    if isinstance(said.get("tags"), list):
        said["tags"] = [tag and tag[:_TAG_CHARACTERS] for tag in said["tags"][:_TAGS]]
    return said


_SCHEMA = pa.schema([("text", pa.string()), ("title", pa.string()), ("tags", pa.list_(pa.string()))])
