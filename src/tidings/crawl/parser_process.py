"""Parse documents in a child process with limited memory and CPU time.

The child loads the parsers once and forks a worker, which parses many documents. The kernel ends the worker at the
first document that exceeds its CPU time; the child then answers in its place and forks the next worker in a few
milliseconds. So a document that is too expensive costs its limit and no more.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import resource
import select
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import fields
from operator import attrgetter
from pathlib import Path
from typing import IO, Any

import orjson

from tidings.crawl.article import Article, NotAFeed, ParsedFeed

CPU_S = 5.0  # per document
WALL_S = 60.0  # in case that the child hangs without using the CPU, or the machine is overloaded
_MEMORY_BYTES = 1 << 30
_LENGTH = struct.Struct("!I")
_PIPE_BYTES = 1 << 20
_START_TIMEOUT_S = 60.0
_ARTICLE = attrgetter(*(field.name for field in fields(Article)))


class ParserLimitExceeded(NotAFeed):
    """A document that needs more CPU time or memory than allowed."""

    def __init__(self, cpu_s: float) -> None:
        super().__init__(f"parsing took more than {cpu_s:g} seconds or too much memory")


class ParserProcess:
    """A child process, started on first use and again after it was killed. It parses one document at a time."""

    def __init__(self, wall_s: float = WALL_S) -> None:
        self._wall_s = wall_s
        self._child: subprocess.Popen[bytes] | None = None
        self.cpu_s = 0.0
        """CPU seconds of the last document."""

    async def parse(self, document: bytes, content_type: str, url: str, cpu_s: float = CPU_S) -> ParsedFeed:
        """Call `parse.parse` in the child. Raises NotAFeed, and ParserLimitExceeded if it takes too much.

        The event loop writes to the pipes itself: a thread would wait for the interpreter lock at every message.
        """
        request, self.cpu_s = orjson.dumps([content_type, url, cpu_s]), cpu_s
        child = self._child if self._is_running() else await asyncio.to_thread(self._start)
        assert child is not None
        try:
            async with asyncio.timeout(self._wall_s):
                await _write(_handle(child.stdin), _frame(request) + _frame(document))
                answer = orjson.loads(await _read(_handle(child.stdout)))
        except (OSError, EOFError, ValueError):  # TimeoutError is an OSError
            self.close()
            raise ParserLimitExceeded(cpu_s) from None
        except asyncio.CancelledError:  # the answer would stay in the pipe
            self.close()
            raise
        if answer is None:
            raise ParserLimitExceeded(cpu_s)
        self.cpu_s = answer["cpu_s"]
        return _parse_answer(answer)

    def _is_running(self) -> bool:
        return self._child is not None and self._child.poll() is None

    def _start(self) -> subprocess.Popen[bytes]:
        self.close()
        source = str(Path(__file__).parents[2])  # of this installation
        path = os.pathsep.join([source, *filter(None, [os.environ.get("PYTHONPATH")])])
        self._child = child = subprocess.Popen(
            [sys.executable, "-m", "tidings.crawl.parser_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": path},
            bufsize=0,
            start_new_session=True,  # Ctrl-C goes to the parent only, which finishes the round
        )
        _wait_until_loaded(_handle(child.stdout))
        for pipe in (child.stdin, child.stdout):
            os.set_blocking(_handle(pipe), False)
            with contextlib.suppress(OSError):  # space for a whole document, if the system allows
                fcntl.fcntl(_handle(pipe), fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        return child

    def close(self) -> None:
        """Kill the child and its worker."""
        child, self._child = self._child, None
        if child is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            for pipe in (child.stdin, child.stdout):
                if pipe is not None:
                    pipe.close()


def _handle(pipe: IO[bytes] | None) -> int:
    assert pipe is not None
    return pipe.fileno()


def _wait_until_loaded(handle: int) -> None:
    """Wait for the first message of the child, which it sends when its modules are loaded."""
    ready, _, _ = select.select([handle], [], [], _START_TIMEOUT_S)
    if not ready or not os.read(handle, _LENGTH.size + len(b"{}")):
        raise OSError("the parser process did not start")


def _frame(message: bytes) -> bytes:
    return _LENGTH.pack(len(message)) + message


async def _write(handle: int, message: bytes) -> None:
    rest = memoryview(message)
    while rest:
        try:
            rest = rest[os.write(handle, rest) :]
        except BlockingIOError:
            loop = asyncio.get_running_loop()
            await _wait_for(handle, loop.add_writer, loop.remove_writer)


async def _read(handle: int) -> bytes:
    (length,) = _LENGTH.unpack(await _read_exactly(handle, _LENGTH.size))
    return await _read_exactly(handle, length)


async def _read_exactly(handle: int, count: int) -> bytes:
    read = bytearray()
    while len(read) < count:
        try:
            piece = os.read(handle, count - len(read))
        except BlockingIOError:
            loop = asyncio.get_running_loop()
            await _wait_for(handle, loop.add_reader, loop.remove_reader)
            continue
        if not piece:
            raise EOFError
        read += piece
    return bytes(read)


async def _wait_for(handle: int, watch: Callable[..., Any], unwatch: Callable[[int], bool]) -> None:
    """Wait until the pipe can be read or written."""
    ready = asyncio.Event()
    watch(handle, ready.set)
    try:
        await ready.wait()
    finally:
        unwatch(handle)


def _parse_answer(answer: dict[str, Any]) -> ParsedFeed:
    if "reason" in answer:
        raise NotAFeed(answer["reason"], tuple(answer["feeds"]))
    title, site, articles_fields, ttl_s, lang, note = answer["document"]
    articles = tuple([Article(*[*values, tuple(tags)]) for *values, tags in articles_fields])
    return ParsedFeed(title, site, articles, ttl_s, lang, note)


# Code of the child process


def _to_list(document: ParsedFeed) -> list[Any]:
    """Return the fields. `astuple` would copy every text, a third of the total time."""
    return [
        document.title,
        document.site,
        [_ARTICLE(article) for article in document.articles],
        document.ttl_s,
        document.lang,
        document.note,
    ]


def _parse_limited(document: bytes, content_type: str, url: str, cpu_s: float) -> dict[str, Any]:
    """Parse a document; the kernel ends this process if that takes too much CPU time."""
    from tidings.crawl.parse import parse

    start_s = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, cpu_s)  # SIGPROF is not handled, so it cannot be delayed by a regex
    try:
        answer: dict[str, Any] = {"document": _to_list(parse(document, content_type, url))}
    except NotAFeed as error:
        answer = {"reason": error.reason, "feeds": error.feeds}
    except Exception as error:  # a hostile document can raise anything
        answer = {"reason": f"cannot be parsed ({type(error).__name__}: {str(error)[:80]})", "feeds": ()}
    signal.setitimer(signal.ITIMER_PROF, 0)
    return {**answer, "cpu_s": time.process_time() - start_s}


def _answer_requests() -> None:
    """Parse documents until the parent closes the pipe."""
    requests = sys.stdin.buffer
    while length := requests.read(_LENGTH.size):
        content_type, url, cpu_s = orjson.loads(requests.read(_LENGTH.unpack(length)[0]))
        document = requests.read(_LENGTH.unpack(requests.read(_LENGTH.size))[0])
        _send(_parse_limited(document, content_type, url, cpu_s))


def _send(answer: dict[str, Any] | None) -> None:
    sys.stdout.buffer.write(_frame(orjson.dumps(answer)))
    sys.stdout.buffer.flush()


def _run_worker() -> bool:
    """Fork a worker and wait for it; return whether it ended because the parent closed the pipe."""
    worker = os.fork()
    if worker == 0:
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
        with contextlib.suppress(BrokenPipeError):
            _answer_requests()
        os._exit(0)
    _, status = os.waitpid(worker, 0)
    return os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0


def main() -> None:
    """Run workers until the parent closes the pipe; answer `null` for each one that exceeded a limit."""
    from tidings.crawl import parse  # noqa: F401  # all workers share what is loaded here

    with contextlib.suppress(BrokenPipeError):
        _send({})
        while not _run_worker():
            _send(None)


if __name__ == "__main__":
    main()
