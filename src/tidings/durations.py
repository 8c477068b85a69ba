"""Parse durations such as `250 ms`, `5 s`, `10 min`, `1 h`, `1 d` or `1 w`, for options and settings."""

from __future__ import annotations

import re
from datetime import timedelta

from tidings.errors import InputError

_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", re.IGNORECASE)
_UNITS = {
    timedelta(milliseconds=1): ("ms", "millisecond", "milliseconds"),
    timedelta(seconds=1): ("s", "sec", "second", "seconds"),
    timedelta(minutes=1): ("m", "min", "minute", "minutes"),
    timedelta(hours=1): ("h", "hour", "hours"),
    timedelta(days=1): ("d", "day", "days"),
    timedelta(weeks=1): ("w", "week", "weeks"),
}
_UNIT_LENGTH = {name: length for length, names in _UNITS.items() for name in names}


def parse_duration(text: str, subject: str = "duration") -> timedelta:
    """Return the duration, to the microsecond. Units are accepted in any case.

    Raises InputError, which starts with `subject` (for example an option), if `text` is not a duration above 0.
    """
    parts = _DURATION.fullmatch(text)
    length = _UNIT_LENGTH.get(parts[2].lower()) if parts else None
    if parts is None or length is None:
        raise InputError(f"{subject} {text!r}: not a duration. Give a number and ms, s, min, h, d or w (5 min).")
    try:
        duration = float(parts[1]) * length
    except OverflowError:
        raise InputError(f"{subject} {text!r}: too long.") from None
    if not duration:
        raise InputError(f"{subject} {text!r}: must be greater than 0.")
    return duration


def parse_seconds(text: str, subject: str = "duration") -> float:
    """Return the duration in seconds. Raises InputError as `parse_duration` does."""
    return parse_duration(text, subject).total_seconds()


def parse_microseconds(text: str, subject: str = "duration") -> int:
    """Return the duration in microseconds. Raises InputError as `parse_duration` does."""
    return parse_duration(text, subject) // timedelta(microseconds=1)
