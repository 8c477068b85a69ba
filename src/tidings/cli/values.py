"""Parse, check and format the values of options: counts (`10M`), bandwidths (`25Mbps`), sizes (`1GB`), times, files."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tidings.errors import InputError

_QUANTITY = re.compile(r"\s*(\d+(?:[.,_]\d+)*|\d*\.\d+)\s*([A-Za-z/]*)\s*")
_COUNT_UNITS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "b": 1e9}
_BIT_UNITS = {
    f"{prefix}{unit}": factor
    for unit in ("bps", "bit/s")
    for prefix, factor in (("", 1.0), ("k", 1e3), ("m", 1e6), ("g", 1e9))
}
_DECIMAL_BYTES = {"b": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12}
_BINARY_BYTES = {"kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30, "tib": 2.0**40}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_count(text: str, option: str) -> int:
    """Return a number written as 250000, 250,000, 250K or 0.25M."""
    return round(_parse_quantity(text, option, _COUNT_UNITS, "'10M' or '250,000'"))


def parse_bits_per_second(text: str, option: str) -> float:
    return _require_positive(_parse_quantity(text, option, _BIT_UNITS, "'25Mbps' or '1 Gbps'"), text, option)


def parse_bytes(text: str, option: str) -> float:
    units = _DECIMAL_BYTES | _BINARY_BYTES
    return _require_positive(_parse_quantity(text, option, units, "'1GB' or '512 MiB'"), text, option)


def _parse_quantity(text: str, option: str, units: dict[str, float], example: str) -> float:
    parts = _QUANTITY.fullmatch(text)
    unit = "" if parts is None else parts[2].lower()
    invalid = InputError(f"{option} {text!r}: not a quantity. Write it as in {example}.")
    if parts is None or unit not in units:
        raise invalid
    digits = re.sub(r"[,_](?=\d{3}(?!\d))", "", parts[1])
    try:
        return float(digits) * units[unit]
    except ValueError as error:
        raise invalid from error


def _require_positive(value: float, text: str, option: str) -> float:
    if not value:
        raise InputError(f"{option} {text!r}: must be greater than 0.")
    return value


def format_time(microseconds: int) -> str:
    """Format a time as ISO 8601 in UTC, to the second."""
    return (_EPOCH + timedelta(microseconds=microseconds)).isoformat(timespec="seconds").replace("+00:00", "Z")


def parse_time(text: str | None, option: str) -> int | None:
    """Return a date or a time in microseconds; UTC unless it has an offset. None stays None."""
    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(f"{option} {text!r}: not a time. Write 2020-03-12 or 2020-03-12T18:00.") from None
    aware = time if time.tzinfo else time.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(microseconds=1)


def require_file(path: Path, option: str) -> None:
    """Raise InputError if the file or directory that the option names does not exist."""
    if not path.exists():
        raise InputError(f"{path}: no such file. Correct {option}.")
