"""Correlating beside the matching: what is no failure is tried again, what is one ends it and is told."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from tidings.correlate.settings import LiveSettings, Settings
from tidings.stream import correlation_query
from tidings.stream.metrics.correlations import load_correlations


class Query:
    """A query that has ended, well or with an error."""

    isActive = False  # noqa: N815
    status = SimpleNamespace()

    def __init__(self, error: str | None) -> None:
        self._error = error

    def exception(self) -> Exception | None:
        return None if self._error is None else RuntimeError(self._error)

    def stop(self) -> None:
        pass


def ran(tmp_path, monkeypatch, errors: list[str | None]) -> tuple[str, list[str]]:
    """The state that is told in the end, and what was said, when the query ends in these ways one after another."""
    said: list[str] = []
    (tmp_path / correlation_query.FOLDER).mkdir()
    asked = LiveSettings(Settings.checked("1 min"), 0)
    beside = correlation_query._Beside(SimpleNamespace(folder=tmp_path), asked, said.append)
    queries = iter(errors)
    monkeypatch.setattr(beside, "_begun", lambda *_: Query(next(queries)))
    beside.run(lambda spark: None, None, threading.Event(), threading.Event())
    figures = load_correlations(tmp_path / correlation_query.FOLDER)
    assert figures is not None
    assert list(queries) == [], "it began as often as it should"
    return figures.state, said


def test_a_worker_that_did_not_start_in_time_is_tried_again(tmp_path, monkeypatch):
    state, said = ran(tmp_path, monkeypatch, ["[X] Python worker failed to connect back.", None])
    assert (state, len(said)) == ("stopped", 1)


@pytest.mark.parametrize("error", ["something else", correlation_query._TOO_BUSY])
def test_what_fails_for_good_ends_it_and_is_told(tmp_path, monkeypatch, error):
    times = correlation_query._ATTEMPTS if error == correlation_query._TOO_BUSY else 1
    state, said = ran(tmp_path, monkeypatch, [error] * times)
    assert state == "failed"
    assert "the matching goes on" in said[-1]
