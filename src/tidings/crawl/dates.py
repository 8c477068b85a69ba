"""Parse the dates of articles: RFC 822 (RSS), ISO 8601 (Atom), and what feeds write instead."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_MAX_CHARACTERS = 100  # a longer text is not a date
_MONTHS = {name: number for number, name in enumerate("jan feb mar apr may jun jul aug sep oct nov dec".split(), 1)}
_ZONE_HOURS = {"est": -5, "edt": -4, "cst": -6, "cdt": -5, "mst": -7, "mdt": -6, "pst": -8, "pdt": -7}
_ZONE_HOURS |= {"wet": 0, "west": 1, "bst": 1, "cet": 1, "mez": 1, "cest": 2, "mesz": 2, "eet": 2, "eest": 3}
_ZONE_HOURS |= {"msk": 3, "jst": 9, "kst": 9, "aest": 10, "aedt": 11}
_EARLIEST, _LATEST = 0.0, 4_102_444_800.0  # 1970 to 2100; other dates are errors
_ZERO_YEAR = re.compile(r"(?:^|\s)0\d{3}(?=[\s-])")  # placeholder for no date; Python reads it as about 2000
_RFC_822 = re.compile(  # the format of nearly all dates in RSS
    r"(?:[A-Z][a-z]{2}, )?(\d\d?) ([A-Z][a-z]{2}) ([12]\d{3}) (\d\d):(\d\d):(\d\d) "
    r"(?:GMT|UTC|([+-](?:0\d|1[0-4]))([0-5]\d))",
    re.ASCII,
)
_SLASHES = re.compile(r"(\d{4})/(\d\d?)/(\d\d?) (\d\d?):(\d\d):(\d\d)", re.ASCII)
_TIME = (  # 9:37, 09:37:11.5, 9:37 PM; then a zone: Z, UTC, PDT, +0200, GMT+02:00, +0000 UTC
    r"(?P<hour>\d\d?):(?P<minute>\d\d?)(?::(?P<second>\d\d?)(?:[.,]\d{1,9})?)? ?(?P<half>[ap]m)? ?"
    r"(?:(?:gmt|utc|z)?(?P<sign>[+-])(?P<zone_hours>\d\d):?(?P<zone_minutes>[0-5]\d)?(?: [a-z]{1,5})?"
    r"|(?P<zone>[a-z]{1,5}))?"
)
_LOOSE_DATES = tuple(
    re.compile(rf"{date}(?:{separator}{_TIME})?", re.ASCII | re.IGNORECASE)
    for date, separator in (
        (r"(?P<year>[12]\d{3})-(?P<month>\d\d?)-(?P<day>\d\d?)", "[t ]"),
        (r"(?:[a-z]{2,9}\.?,? ?)?(?P<day>\d\d?)[ -](?P<month>[a-z]{3,9})\.?,?[ -](?P<year>[12]\d{3})", ",? "),
        (
            r"(?:[a-z]{2,9}(?:\.?, ?|\.? ))?(?P<month>[a-z]{3,9})\.? (?P<day>\d\d?)(?:, ?| )(?P<year>[12]\d{3})",
            ",? ",
        ),
    )
)


def parse_date(text: str) -> float | None:
    """Parse the date of an article into seconds since 1970, UTC if it has no zone; None if it is not plausible."""
    text = text[:_MAX_CHARACTERS].strip()
    if (parts := _RFC_822.fullmatch(text)) and parts[2].lower() in _MONTHS:
        day, month, year, hour, minute, second, offset_hours, offset_minutes = parts.groups()
        offset_s = int(offset_hours) * 3_600 + int(f"{offset_hours[0]}{offset_minutes}") * 60 if offset_hours else 0
        date = (int(year), _MONTHS[month.lower()], int(day), int(hour), int(minute), int(second))
        if (at := _to_timestamp(offset_s, *date)) is not None:
            return at
    if parts := _SLASHES.fullmatch(text):
        return _to_timestamp(0, *map(int, parts.groups()))
    return parse_any_date(text)


def parse_any_date(text: str) -> float | None:
    """Parse a date in any supported format; slower than `parse_date`."""
    text = " ".join(text[:_MAX_CHARACTERS].split())
    if _ZERO_YEAR.search(text):
        return None
    at = _read(datetime.fromisoformat, text) if text[:4].isdigit() else None
    if at is None:
        at = _parse_loose(text)
    return at if at is None or is_plausible(at) else None


def is_plausible(at: float) -> bool:
    """Return whether an article can have this time."""
    return _EARLIEST < at < _LATEST


def _to_month(text: str) -> int | None:
    """Return the number of a month: 9, Sep, Sept, September."""
    return int(text) if text.isdigit() else _MONTHS.get(text[:3].lower())


def _parse_loose(text: str) -> float | None:
    for pattern in _LOOSE_DATES:
        if (parts := pattern.fullmatch(text)) and (month := _to_month(parts["month"])):
            return _from_parts(parts, month)
    return _read(parsedate_to_datetime, text)


def _from_parts(parts: re.Match[str], month: int) -> float | None:
    hour, minute, second = (int(parts[name] or 0) for name in ("hour", "minute", "second"))
    if half := parts["half"]:
        hour = hour % 12 + (12 if half.lower() == "pm" else 0)
    offset_s = _ZONE_HOURS.get((parts["zone"] or "").lower(), 0) * 3_600
    if parts["sign"]:
        offset_s = int(parts["zone_hours"]) * 3_600 + int(parts["zone_minutes"] or 0) * 60
        offset_s *= -1 if parts["sign"] == "-" else 1
    next_day_s = 86_400 if (hour, minute, second) == (24, 0, 0) else 0  # ISO 8601 allows 24:00
    hour = 0 if next_day_s else hour
    return _to_timestamp(offset_s - next_day_s, int(parts["year"]), month, int(parts["day"]), hour, minute, second)


def _to_timestamp(offset_s: int, *parts: int) -> float | None:
    try:
        at = datetime(*parts, tzinfo=UTC).timestamp() - offset_s  # type: ignore[misc,arg-type]
    except ValueError:
        return None
    return at if is_plausible(at) else None


def _read(read: Callable[[str], datetime], text: str) -> float | None:
    try:
        date = read(text)
        return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
