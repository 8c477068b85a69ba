"""Fixtures of the stream tests."""

import pytest

from tidings.testing.log import captured_events


@pytest.fixture
def events():
    """The log events of a test, as text."""
    with captured_events() as messages:
        yield messages
