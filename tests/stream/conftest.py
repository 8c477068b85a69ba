"""Fixtures of the stream tests."""

from contextlib import ExitStack

import pytest

from tidings.testing.log import captured_events


@pytest.fixture
def events():
    """The log events of a test, as text."""
    with captured_events() as messages:
        yield messages


@pytest.fixture
def start_stream(request, tmp_path):
    """A function that starts the `SimulatedStream` of the test module; its store is closed at the end."""
    with ExitStack() as stack:

        def start(*arguments):
            stream = request.module.SimulatedStream(tmp_path, *arguments)
            stack.callback(stream.store.close)
            return stream

        yield start
