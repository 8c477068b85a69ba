"""Quantities as users write them: '10M' subscriptions, '25Mbps', '1GB'."""

from __future__ import annotations

import re

from tidings.errors import InputError

_WRITTEN = re.compile(r"\s*(\d+(?:[.,_]\d+)*|\d*\.\d+)\s*([A-Za-z/]*)\s*")
_TIMES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "b": 1e9}
_BITS = {"bps": 1.0, "kbps": 1e3, "mbps": 1e6, "gbps": 1e9, "bit/s": 1.0, "kbit/s": 1e3, "mbit/s": 1e6, "gbit/s": 1e9}
_DECIMAL = {"b": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12}
_BINARY = {"kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30, "tib": 2.0**40}
_BYTES = _DECIMAL | _BINARY


def count(written: str, option: str) -> int:
    """A number of things, as in 250000, 250,000, 250K or 0.25M."""
    return round(_read(written, option, _TIMES, "'10M' or '250,000'"))


def bits_a_second(written: str, option: str) -> float:
    return _above_nothing(_read(written, option, _BITS, "'25Mbps' or '1 Gbps'"), written, option)


def byte_count(written: str, option: str) -> float:
    return _above_nothing(_read(written, option, _BYTES, "'1GB' or '512 MiB'"), written, option)


def _read(written: str, option: str, units: dict[str, float], example: str) -> float:
    found = _WRITTEN.fullmatch(written)
    unit = "" if found is None else found[2].lower()
    if found is None or unit not in units:
        raise InputError(f"{option} {written!r}: write it as in {example}.")
    digits = re.sub(r"[,_](?=\d{3}(?!\d))", "", found[1])
    try:
        return float(digits) * units[unit]
    except ValueError as error:
        raise InputError(f"{option} {written!r}: write it as in {example}.") from error


def _above_nothing(value: float, written: str, option: str) -> float:
    if not value:
        raise InputError(f"{option} {written!r}: this is nothing at all; give more than 0.")
    return value
