"""Check queries in a child process, which also samples the inbox.

A hostile query takes a quarter of a second of Python. In the process of the server it would hold the interpreter lock,
and requests of all owners would wait for it.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from types import TracebackType

from tidings.errors import InputError
from tidings.log import Event
from tidings.web.errors import HttpError
from tidings.web.inbox_sampler import inbox_sampler
from tidings.web.query_check import QueryChecker
from tidings.web.schemas import Box
from tidings.web.volume_estimate import VolumeEstimator

LOG = logging.getLogger("tidings.web")
_MODULE = "tidings.web.check_process"
_NICENESS = 5  # of the child: a quarter of the share of other processes if no processor is idle
_ANSWER_S = 30.0
_RESTART_S = 1.0
_STOP_S = 5.0  # to save the sample


class CheckProcess:
    """A child process that checks one query at a time. It runs inside the block and is restarted if it ends."""

    def __init__(self, inbox: Path, history: Path) -> None:
        self._inbox, self._history = inbox, history
        self._in_use, self._starting, self._stop = threading.Lock(), threading.Lock(), threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True, name="tidings-checks")

    def __enter__(self) -> CheckProcess:
        self._start()
        self._watcher.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._starting:
            self._stop.set()
            self._connection.close()
        try:
            self._child.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
        self._watcher.join()

    @property
    def pid(self) -> int:
        """The id of the child."""
        return self._child.pid

    def check(self, query: str, box: Box | None) -> bytes:
        """Return a `QueryCheck` as JSON. Raises InputError, and HttpError 503 if the child ends or takes too long."""
        with self._in_use:
            child, connection = self._child, self._connection
            try:
                connection.send((query, box))
                if not connection.poll(_ANSWER_S):
                    raise TimeoutError
                answer = connection.recv()
            except (OSError, EOFError):
                child.kill()  # it would answer the next query with the result of this one
                retry = {"Retry-After": f"{2 * _RESTART_S:g}"}
                raise HttpError(503, "The query could not be checked now. Try again.", retry) from None
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, bytes)
        return answer

    def _start(self) -> None:
        self._connection, theirs = Pipe()
        source = str(Path(__file__).parents[2])  # of this installation
        path = os.pathsep.join([source, *filter(None, [os.environ.get("PYTHONPATH")])])
        with theirs:
            self._child = subprocess.Popen(
                [sys.executable, "-P", "-m", _MODULE, str(theirs.fileno()), str(self._inbox), str(self._history)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": path},
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C goes to the parent only, which closes the connection
            )

    def _watch(self) -> None:
        while True:
            code = self._child.wait()
            if self._stop.wait(_RESTART_S):
                return
            LOG.warning(Event("query check process restarted", exit_code=code))
            with self._in_use, self._starting:
                if self._stop.is_set():
                    return
                self._connection.close()
                with suppress(OSError):  # out of memory or processes, which may be temporary
                    self._start()


def _answer(checker: QueryChecker, query: str, box: Box | None) -> bytes | Exception:
    try:
        return checker.check(query, box)
    except InputError as error:
        return error
    except Exception as error:  # the next query may be checked
        LOG.exception(Event("query not checked"))
        return RuntimeError(f"{type(error).__name__}: {error}")


def main() -> None:
    """Sample the inbox, and check queries until the parent closes the connection or dies."""
    handle, inbox, history = sys.argv[1:]
    os.nice(_NICENESS)
    checker = QueryChecker(VolumeEstimator(Path(history)))
    with inbox_sampler(Path(inbox), checker.volume), Connection(int(handle)) as requests, suppress(OSError, EOFError):
        while True:
            requests.send(_answer(checker, *requests.recv()))


if __name__ == "__main__":
    main()
