"""The correlation query starts again after a transient error; another error ends it and is reported."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from tidings.correlate.settings import CorrelationSettings, StreamCorrelationSettings
from tidings.stream import correlation_query
from tidings.stream.metrics.correlations import FOLDER, load_correlation_metrics


class EndedQuery:
    """A query that has ended, with or without an error."""

    isActive = False  # noqa: N815
    status = SimpleNamespace()

    def __init__(self, error: str | None) -> None:
        self._error = error

    def exception(self) -> Exception | None:
        return None if self._error is None else RuntimeError(self._error)

    def stop(self) -> None:
        pass


@pytest.fixture
def run_queries(tmp_path, monkeypatch, events):
    """Run queries that end with these errors one after the other; return the final state and the log."""

    def run(errors: list[str | None]) -> tuple[str, list[str]]:
        (tmp_path / FOLDER).mkdir()
        settings = StreamCorrelationSettings(CorrelationSettings.parse("1 min"), 0)
        query = correlation_query._CorrelationQuery(SimpleNamespace(work_dir=tmp_path), settings)
        queries = iter(errors)
        monkeypatch.setattr(query, "_start", lambda *_: EndedQuery(next(queries)))
        query.run(lambda spark: None, None, threading.Event(), threading.Event())
        metrics = load_correlation_metrics(tmp_path / FOLDER)
        assert metrics is not None
        assert list(queries) == [], "it did not start often enough"
        return metrics.state, events

    return run


def test_a_worker_that_starts_too_late_restarts_the_query(run_queries):
    state, messages = run_queries(["[X] Python worker failed to connect back.", None])
    assert state == "stopped"
    assert [message.split(" reason=")[0] for message in messages] == ["correlation query restarted"]


@pytest.mark.parametrize("error", ["something else", correlation_query._TOO_BUSY])
def test_a_permanent_error_ends_the_query_and_is_logged(run_queries, error):
    times = correlation_query._ATTEMPTS if error == correlation_query._TOO_BUSY else 1
    state, messages = run_queries([error] * times)
    assert state == "failed"
    assert messages[-1].startswith("correlation query failed error=")
    assert 'effect="matching continues"' in messages[-1]
