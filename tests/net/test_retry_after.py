"""`Retry-After` is parsed in both formats; other values are ignored."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.net.retry_after import parse_retry_after

NOON = 1_800_014_400.0  # Fri, 15 Jan 2027 12:00:00 GMT


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("120", 120.0),
        (" 0 ", 0.0),
        ("Fri, 15 Jan 2027 12:00:30 GMT", 30.0),
        ("Friday, 15-Jan-27 12:01:00 GMT", 60.0),
        ("Fri Jan 15 12:00:05 2027", 5.0),
        ("Fri, 15 Jan 2027 11:00:00 GMT", 0.0),
        (None, None),
        ("", None),
        ("-5", None),
        ("1.5", None),
        ("soon", None),
        ("٣", None),
    ],
)
def test_seconds_and_dates_are_parsed(header, seconds):
    assert parse_retry_after(header, NOON) == seconds


@settings(deadline=None)
@given(st.text() | st.from_regex(r"[A-Z][a-z]{2}, \d+ [A-Z][a-z]{2} \d+ \d+:\d+:\d+ (GMT|[+-]\d{4})"))
def test_any_value_gives_none_or_a_delay(header):
    delay = parse_retry_after(header, NOON)
    assert delay is None or delay >= 0
