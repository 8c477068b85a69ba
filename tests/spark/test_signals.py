"""Being asked to stop ends what Spark is doing, without an error."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
from py4j.protocol import Py4JNetworkError

from tidings.spark.signals import JVM_GONE, cancelled_when, ended_by_signals, forgiven_when
from tidings.store import open_store


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


def test_what_fails_as_all_are_asked_to_stop_is_no_error():
    stop = threading.Event()
    with pytest.raises(ConnectionError), forgiven_when(stop, *JVM_GONE):
        raise ConnectionResetError
    threading.Timer(0.2, stop.set).start()  # the JVM has heard of it before us
    with forgiven_when(stop, *JVM_GONE):
        raise Py4JNetworkError
    with pytest.raises(ValueError, match="a real one"), forgiven_when(stop, *JVM_GONE):
        raise ValueError("a real one")


def test_a_crawl_ends_well_when_its_whole_group_is_told_to(tmp_path):
    """As systemd and shells do it: the JVM and its workers get the SIGTERM too."""
    with socket.create_server(("127.0.0.1", 0)) as silent, open_store(tmp_path) as store:
        store.add_feed(f"http://127.0.0.1:{silent.getsockname()[1]}/")
        command = [sys.executable, "-m", "tidings.cli.main", "crawl", "--state", str(tmp_path), "--allow", "loopback"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as crawl:
            silent.accept()  # so a visit is under way
            os.killpg(crawl.pid, signal.SIGTERM)
            _, said = crawl.communicate(timeout=400)
        assert (crawl.returncode, "Traceback" in said) == (0, False), said
        # the visit is cut off, or failed by the time the stop is heard; nothing may be told as found
        assert re.search("stopped: [01] visits, 0 new articles, 0 updated", said), said
