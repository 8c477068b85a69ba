"""What can be chosen about tracking correlations, checked once."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tidings.correlate.partition.plan import checked_partitions
from tidings.correlate.partition.registry import DEFAULT, checked_algorithm
from tidings.errors import InputError

_UNITS_US = {"ms": 1_000, "s": 10**6, "min": 60 * 10**6, "h": 3600 * 10**6, "d": 86_400 * 10**6, "w": 604_800 * 10**6}
_NAMES = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), "ms"),
    **dict.fromkeys(("s", "sec", "second", "seconds"), "s"),
    **dict.fromkeys(("m", "min", "minute", "minutes"), "min"),
    **dict.fromkeys(("h", "hour", "hours"), "h"),
    **dict.fromkeys(("d", "day", "days"), "d"),
    **dict.fromkeys(("w", "week", "weeks"), "w"),
}
_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", re.IGNORECASE)


def microseconds(text: str, what: str) -> int:
    """A length of time such as `5 min`; `what` names it in the sentence that refuses another."""
    found = _DURATION.fullmatch(text)
    unit = _NAMES.get(found[2].lower()) if found else None
    value = round(float(found[1]) * _UNITS_US[unit]) if found and unit else 0
    if value <= 0:
        raise InputError(f"{what} is a length of time such as '5 min', '1 h' or '2 days', not {text!r}.")
    return value


@dataclass(frozen=True, slots=True)
class Settings:
    """Times are in microseconds. A window is a whole number of slides; a report comes at every slide."""

    window_us: int
    slide_us: int
    partitions: int = 10
    partitioners: int = 5
    algorithm: str = DEFAULT
    sightings: int = 3  # of a tag set that no calculator owns whole, before one is given it
    checked_every: int = 1000  # notified posts between two looks at the quality of the partitions
    threshold: float = 0.5  # by which communication or the largest load may be worse than at first
    min_support: int = 2
    catch_up: bool = True  # tell a calculator that is given a tag of the posts it missed; the paper does not
    posts_a_partition: int | None = None  # in a window; then only as many partitions are in use as that needs
    seed: int = 0

    @property
    def panes(self) -> int:
        """Slides in a window."""
        return self.window_us // self.slide_us

    @classmethod
    def checked(cls, window: str, slide: str | None = None, **others: object) -> Settings:
        """The settings as users write them; InputError says which of them cannot be."""
        window_us = microseconds(window, "The window")
        slide_us = microseconds(slide, "The slide") if slide else window_us
        if window_us % slide_us:
            raise InputError(f"The window ({window}) must be a whole number of slides ({slide}).")
        found = cls(window_us, slide_us, **others)  # type: ignore[arg-type]
        checked_partitions(found.partitions)
        checked_algorithm(found.algorithm)
        _at_least_one("partitioners", found.partitioners)
        _at_least_one("sightings before a single addition (--sn)", found.sightings)
        _at_least_one("posts between two looks at the quality (--z)", found.checked_every)
        _at_least_one("posts that support a coefficient (--min-support)", found.min_support)
        if found.posts_a_partition is not None:
            _at_least_one("posts a partition", found.posts_a_partition)
        if not found.threshold > 0:
            raise InputError(f"The threshold must be above 0, not {found.threshold:g}.")
        return found


@dataclass(frozen=True, slots=True)
class LiveSettings:
    """What is asked of correlating in a stream."""

    settings: Settings
    lateness_us: int
    tracked_words: tuple[str, ...] = ()
    kept_windows: int = 500


def _at_least_one(what: str, value: int) -> None:
    if value < 1:
        raise InputError(f"The number of {what} must be at least 1, not {value}.")
