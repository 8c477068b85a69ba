"""Being asked to stop ends what Spark is doing, without an error."""

from __future__ import annotations

import signal
import threading
import time

import pytest

from tidings.spark.stop import cancelled_when, ended_by_signals


def slowly(batches):
    for batch in batches:
        time.sleep(60)
        yield batch


def test_a_job_that_runs_when_the_stop_comes_is_cancelled_and_later_jobs_run(spark):
    stop, seen = threading.Event(), []
    threading.Timer(1, stop.set).start()
    start = time.monotonic()
    with cancelled_when(stop, spark):
        spark.range(2).mapInArrow(slowly, "id long").collect()
        seen.append("came to its end")
    assert time.monotonic() - start < 45
    assert not seen
    assert spark.range(3).count() == 3


def test_what_goes_wrong_by_itself_is_told(spark):
    with pytest.raises(ValueError, match="nothing of it"), cancelled_when(threading.Event(), spark):
        raise ValueError("nothing of it")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_before_anything_has_begun_signals_end_the_program_well(number):
    before = signal.getsignal(number)
    with pytest.raises(SystemExit) as end, ended_by_signals():
        signal.raise_signal(number)
    assert end.value.code == 0
    assert signal.getsignal(number) is before
