"""The end of a stream: an error counts only if nobody has asked the stream to stop."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from tidings.stream.phase import PhaseFile
from tidings.stream.shutdown import run_until_stopped


def run_failed_query(stop, folder):
    """Run a query that has ended with an error, as after the loss of its Python workers."""
    query = SimpleNamespace(isActive=False, exception=lambda: RuntimeError("a worker was killed"))
    runner = SimpleNamespace(commits=SimpleNamespace(error=None, wait=lambda: None))
    run_until_stopped(query, runner, stop, PhaseFile(folder))


def test_error_of_a_query_is_raised(tmp_path):
    with pytest.raises(RuntimeError, match="a worker was killed"):
        run_failed_query(threading.Event(), tmp_path)


def test_error_of_a_query_is_ignored_once_the_stream_is_asked_to_stop(tmp_path):
    """SIGTERM to the process group also kills the workers, whose loss can end the query first."""
    stop = threading.Event()
    stop.set()
    run_failed_query(stop, tmp_path)


def test_error_of_a_query_is_ignored_if_the_request_to_stop_follows(tmp_path):
    stop = threading.Event()
    timer = threading.Timer(0.1, stop.set)
    timer.start()
    run_failed_query(stop, tmp_path)
    timer.join()
