"""Signals stop Spark jobs without an error."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref

import pytest
from py4j.protocol import Py4JNetworkError

from tidings.spark.signals import JVM_GONE, cancel_jobs_on, exit_on_signal, ignore_errors_once_stopping
from tidings.store import open_store


def sleep_in_task(batches):
    for batch in batches:
        time.sleep(60)
        yield batch


def test_stop_cancels_the_running_job_and_later_jobs_run(spark):
    stop, finished = threading.Event(), []
    threading.Timer(1, stop.set).start()
    start = time.monotonic()
    with cancel_jobs_on(stop, spark):
        spark.range(2).mapInArrow(sleep_in_task, "id long").collect()
        finished.append(True)
    assert time.monotonic() - start < 45
    assert not finished
    assert spark.range(3).count() == 3


def test_errors_before_the_stop_are_raised(spark):
    with pytest.raises(ValueError, match="real error"), cancel_jobs_on(threading.Event(), spark):
        raise ValueError("real error")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_exit_with_code_0_before_the_start(number):
    previous = signal.getsignal(number)
    with pytest.raises(SystemExit) as exited, exit_on_signal():
        signal.raise_signal(number)
    assert exited.value.code == 0
    assert signal.getsignal(number) is previous


def test_a_signal_during_a_callback_exits_without_a_traceback(monkeypatch):
    reported = []
    monkeypatch.setattr(sys, "unraisablehook", reported.append)
    event = threading.Event()
    callback = weakref.ref(event, lambda _: signal.raise_signal(signal.SIGTERM))
    with pytest.raises(SystemExit) as exited, exit_on_signal():
        del event  # the callback runs, and Python drops its exception
    assert (exited.value.code, reported, callback()) == (0, [], None)


def test_connection_errors_during_shutdown_are_ignored():
    stop = threading.Event()
    with pytest.raises(ConnectionError), ignore_errors_once_stopping(stop, *JVM_GONE):
        raise ConnectionResetError
    threading.Timer(0.2, stop.set).start()  # the JVM received the signal first
    with ignore_errors_once_stopping(stop, *JVM_GONE):
        raise Py4JNetworkError
    with pytest.raises(ValueError, match="real error"), ignore_errors_once_stopping(stop, *JVM_GONE):
        raise ValueError("real error")


@pytest.mark.long
def test_sigterm_to_the_process_group_stops_a_crawl_with_code_0(tmp_path):
    """Shells and systemd signal the whole group: the JVM and its workers get the SIGTERM too."""
    with socket.create_server(("127.0.0.1", 0)) as silent, open_store(tmp_path) as store:
        store.feeds.add(f"http://127.0.0.1:{silent.getsockname()[1]}/")
        command = [sys.executable, "-m", "tidings.cli.main", "crawl", "--state", str(tmp_path), "--allow", "loopback"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as crawl:
            silent.accept()  # a visit is running
            os.killpg(crawl.pid, signal.SIGTERM)
            _, output = crawl.communicate(timeout=400)
        assert (crawl.returncode, "Traceback" in output) == (0, False), output
        # the visit is cancelled or has failed; no article may be reported
        assert re.search(r"crawler: [01] feeds? visited in \d+ s.*; 0 new articles, 0 updated", output), output
