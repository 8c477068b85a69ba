from __future__ import annotations

from datetime import timedelta

import pytest

from tidings.durations import parse_duration, parse_microseconds, parse_seconds
from tidings.errors import InputError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("250 ms", 0.25),
        ("5s", 5),
        (" 1.5 min ", 90),
        ("2 MINUTES", 120),
        ("24 h", 86_400),
        ("7 days", 604_800),
        ("1 D", 86_400),
        ("1 W", 604_800),
        ("2 weeks", 1_209_600),
    ],
)
def test_durations_are_parsed_in_any_case(text, seconds):
    assert parse_duration(text) == timedelta(seconds=seconds)
    assert parse_seconds(text) == pytest.approx(seconds)
    assert parse_microseconds(text) == seconds * 1_000_000


INVALID = ["", "5", "s", "-5 s", "5 moons", "5 s s", "1e3 s", "0 s", "0.0000001 ms", "9" * 30 + " d"]


@pytest.mark.parametrize("text", INVALID)
def test_invalid_duration_raises_an_error_that_starts_with_the_subject(text):
    with pytest.raises(InputError, match=r"^--window "):
        parse_duration(text, "--window")


def test_error_gives_the_value_and_the_units():
    with pytest.raises(InputError, match=r"'often': not a duration\. Give a number and ms, s, min, h, d or w"):
        parse_duration("often", "--trigger")
    with pytest.raises(InputError, match=r"--trigger '0 s': must be greater than 0\."):
        parse_duration("0 s", "--trigger")
