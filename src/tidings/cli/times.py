"""Moments as people write and read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tidings.errors import InputError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment(microseconds: int) -> str:
    """ISO 8601, in UTC."""
    return (_EPOCH + timedelta(microseconds=microseconds)).isoformat(timespec="seconds").replace("+00:00", "Z")


def since(text: str | None, option: str = "--since") -> int | None:
    """A day or a time, in UTC unless it says otherwise, as microseconds; None as None."""
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(f"{option} {text!r}: write a day or a time, such as 2020-03-12 or 2020-03-12T18:00.") from None
    aware = found if found.tzinfo else found.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(microseconds=1)
