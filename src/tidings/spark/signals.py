"""Stop sessions and jobs on signals, even in the middle of a call, so that nothing is written afterwards."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from py4j.protocol import Py4JNetworkError
from pyspark.sql import SparkSession

_STOP_SECONDS = 30.0
_POLL_SECONDS = 0.1
_SIGNAL_DELAY_SECONDS = 1.0
_JOB_GROUP = "tidings until stopped"
JVM_GONE = (Py4JNetworkError, ConnectionError)


@contextmanager
def owned_session(spark: SparkSession) -> Iterator[None]:
    """Turn SIGINT into KeyboardInterrupt, and stop the session at the end; further interrupts are ignored.

    For programs that own their session and their main thread, such as the commands.
    """
    # Spark's handler calls the JVM from within the interrupted call, which prints a long traceback.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # The accumulator server prints one too if the JVM dies first. The caller waiting for the JVM reports the error.
    server = spark.sparkContext._accumulatorServer
    if server is not None:
        server.handle_error = lambda request, client_address: None  # type: ignore[method-assign]
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        _stop_session(spark)
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def set_event_on_signal(stop: threading.Event) -> Iterator[None]:
    """Set the event on SIGINT and SIGTERM; raise KeyboardInterrupt on a second SIGINT."""

    def request_stop(number: int, frame: FrameType | None) -> None:
        if stop.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        stop.set()

    with _signal_handler(request_stop):
        yield


@contextmanager
def exit_on_signal() -> Iterator[None]:
    """Exit with code 0 on SIGINT and SIGTERM: nothing has started that must be finished.

    Errors after the signal are its consequences. The exception of the handler may be lost in a callback of a library;
    Python must not print it then.
    """
    requested = threading.Event()

    def exit_program(number: int, frame: FrameType | None) -> None:
        requested.set()
        raise SystemExit(0)

    with _signal_handler(exit_program), _no_report_of_lost_exits():
        try:
            yield
        except Exception as error:
            if requested.is_set():
                raise SystemExit(0) from error
            raise
    if requested.is_set():
        raise SystemExit(0)


@contextmanager
def _no_report_of_lost_exits() -> Iterator[None]:
    """Do not print a SystemExit that a callback, for example of the garbage collector, cannot pass on."""
    report = sys.unraisablehook

    def report_errors(lost: sys.UnraisableHookArgs) -> None:
        if not issubclass(lost.exc_type, SystemExit):
            report(lost)

    sys.unraisablehook = report_errors
    try:
        yield
    finally:
        sys.unraisablehook = report


@contextmanager
def _signal_handler(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Install a handler for SIGINT and SIGTERM; restore the previous ones at the end."""
    previous = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, old_handler in previous.items():
            signal.signal(number, old_handler)


@contextmanager
def ignore_errors_once_stopping(stop: threading.Event, *kinds: type[Exception]) -> Iterator[None]:
    """Ignore these errors during shutdown: SIGTERM to the process group also kills the JVM.

    The work in progress is lost, as after a crash; the next start repeats it.
    """
    try:
        yield
    except kinds:
        if not stop.wait(_SIGNAL_DELAY_SECONDS):  # the JVM may receive the signal first
            raise


def save_handlers() -> Callable[[], None]:
    """Return a function that restores the current signal handlers: starting Spark replaces them."""
    saved = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in saved.items():
            signal.signal(number, handler)

    return restore


@contextmanager
def cancel_jobs_on(stop: threading.Event, spark: SparkSession) -> Iterator[None]:
    """Cancel the Spark jobs of this block once `stop` is set, and leave the block without an error."""
    done = threading.Event()
    spark.sparkContext.setJobGroup(_JOB_GROUP, "tidings", interruptOnCancel=True)
    thread = threading.Thread(target=_cancel_jobs, args=(stop, done, spark), daemon=True, name="tidings-cancel")
    thread.start()
    try:
        yield
    except Exception:
        if not stop.is_set():
            raise
    finally:
        done.set()
        thread.join()
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]


def _cancel_jobs(stop: threading.Event, done: threading.Event, spark: SparkSession) -> None:
    while not done.wait(_POLL_SECONDS):
        if stop.is_set():  # repeatedly: another job may follow
            spark.sparkContext.cancelJobGroup(_JOB_GROUP)


def _stop_session(spark: SparkSession) -> None:
    """Stop the session in another thread: an interrupted call leaves the connection of this one unusable."""

    def stop() -> None:
        with suppress(Exception):  # the JVM may be gone already
            spark.stop()

    stopper = threading.Thread(target=stop, daemon=True, name="tidings-stop")
    stopper.start()
    stopper.join(_STOP_SECONDS)
