"""`Retry-After` is understood in both its spellings, and whatever else stands there is no harm."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.net.retry_after import wait_s

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
def test_seconds_and_dates_are_understood(header, seconds):
    assert wait_s(header, NOON) == seconds


@settings(deadline=None)
@given(st.text() | st.from_regex(r"[A-Z][a-z]{2}, \d+ [A-Z][a-z]{2} \d+ \d+:\d+:\d+ (GMT|[+-]\d{4})"))
def test_whatever_a_server_writes_there_is_no_harm(header):
    waited = wait_s(header, NOON)
    assert waited is None or waited >= 0
