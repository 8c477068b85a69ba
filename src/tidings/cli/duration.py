"""Times as users write them: '500 ms', '5 s', '2 min', '24 h', '7 days'."""

from __future__ import annotations

import re

from tidings.errors import InputError

_WRITTEN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*")
_UNITS = {
    0.001: ("ms", "millisecond", "milliseconds"),
    1.0: ("s", "sec", "second", "seconds"),
    60.0: ("m", "min", "minute", "minutes"),
    3_600.0: ("h", "hour", "hours"),
    86_400.0: ("d", "day", "days"),
}
_SECONDS = {name: seconds for seconds, names in _UNITS.items() for name in names}


def seconds(written: str, option: str) -> float:
    """InputError, which names the option, when it is not a time or is none at all."""
    found = _WRITTEN.fullmatch(written)
    if found is None or found[2] not in _SECONDS:
        raise InputError(f"{option} {written!r}: write a number and ms, s, min, h or days, for example '500 ms'.")
    if not (time := float(found[1]) * _SECONDS[found[2]]):
        raise InputError(f"{option} {written!r}: this is no time at all; give one above 0.")
    return time
