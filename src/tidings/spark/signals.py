"""Ending a session of ours, also in the middle of a call: nothing keeps writing after a command has ended."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from py4j.protocol import Py4JNetworkError
from pyspark.sql import SparkSession

_STOP_SECONDS = 30.0
_LOOK_SECONDS = 0.1
_SAME_MOMENT_SECONDS = 1.0
_GROUP = "tidings until stopped"
JVM_GONE = (Py4JNetworkError, ConnectionError)


@contextmanager
def stopped_afterwards(spark: SparkSession) -> Iterator[None]:
    """Interrupts arrive as KeyboardInterrupt only; then the session is stopped, undisturbed by further ones.

    For a program that owns its session and its main thread, as the commands do.
    """
    # Spark's own handler calls the JVM from within the call that is interrupted, which ends in a page of traceback.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # So does the server of its accumulators when the JVM goes first; who waits for the JVM tells what is to be told.
    server = spark.sparkContext._accumulatorServer
    if server is not None:
        server.handle_error = lambda request, client_address: None  # type: ignore[method-assign]
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        _stop(spark)
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def set_by_signals(stop: threading.Event) -> Iterator[None]:
    """SIGINT and SIGTERM ask to stop; the second SIGINT ends at once."""

    def asked(number: int, frame: FrameType | None) -> None:
        if stop.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        stop.set()

    with _signals_to(asked):
        yield


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """SIGINT and SIGTERM end the program at once, and well: nothing has begun that would have to be finished."""

    def end(number: int, frame: FrameType | None) -> None:
        raise SystemExit(0)

    with _signals_to(end):
        yield


@contextmanager
def _signals_to(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """SIGINT and SIGTERM go to a handler, and afterwards to whom they went before."""
    before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


@contextmanager
def forgiven_when(stop: threading.Event, *kinds: type[Exception]) -> Iterator[None]:
    """Errors of these kinds are none once all were asked to stop: a SIGTERM to the whole group takes the JVM along.

    What was going on is given up, as if the machine had gone: the next start begins it again.
    """
    try:
        yield
    except kinds:
        if not stop.wait(_SAME_MOMENT_SECONDS):  # the JVM may have heard of it before us
            raise


def handlers() -> Callable[[], None]:
    """What puts the handlers of signals back as they are now: starting Spark sets its own."""
    asked = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def put_back() -> None:
        for number, handler in asked.items():
            signal.signal(number, handler)

    return put_back


@contextmanager
def cancelled_when(stop: threading.Event, spark: SparkSession) -> Iterator[None]:
    """Once `stop` is set, the Spark jobs begun in this block are cancelled, and the block is left without an error."""
    left = threading.Event()
    spark.sparkContext.setJobGroup(_GROUP, "tidings", interruptOnCancel=True)
    thread = threading.Thread(target=_cancel, args=(stop, left, spark), daemon=True, name="tidings-cancel")
    thread.start()
    try:
        yield
    except Exception:
        if not stop.is_set():
            raise
    finally:
        left.set()
        thread.join()
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]


def _cancel(stop: threading.Event, left: threading.Event, spark: SparkSession) -> None:
    while not left.wait(_LOOK_SECONDS):
        if stop.is_set():  # again and again: one job may follow the other
            spark.sparkContext.cancelJobGroup(_GROUP)


def _stop(spark: SparkSession) -> None:
    """In a thread of its own: an interrupted call leaves this thread's connection to the JVM unusable."""

    def stop() -> None:
        with suppress(Exception):  # the JVM may be gone already
            spark.stop()

    stopping = threading.Thread(target=stop, daemon=True, name="tidings-stop")
    stopping.start()
    stopping.join(_STOP_SECONDS)
