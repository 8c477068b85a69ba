"""Parse documents in a child process with limited memory and time.

The child is used for many documents. A document that exceeds a limit kills the child, and its feed gets an error.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import resource
import select
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields
from operator import attrgetter
from pathlib import Path
from typing import IO, Any

import orjson

from tidings.crawl.article import Article, NotAFeed, ParsedFeed

TIMEOUT_S = 5.0
_MEMORY_BYTES = 1 << 30
_LENGTH = struct.Struct("!I")
_PIPE_BYTES = 1 << 20
_START_TIMEOUT_S = 60.0
_ARTICLE = attrgetter(*(field.name for field in fields(Article)))


class ParserProcess:
    """A child process, started on first use and again after it was killed. It parses one document at a time."""

    def __init__(self, seconds: float = TIMEOUT_S) -> None:
        self._seconds = seconds
        self._child: subprocess.Popen[bytes] | None = None

    async def parse(self, document: bytes, content_type: str, url: str) -> ParsedFeed:
        """Call `parse.parse` in the child. Raises NotAFeed, also if the child exceeds a limit.

        The event loop writes to the pipes itself: a thread would wait for the interpreter lock at every message.
        """
        request = orjson.dumps([content_type, url])
        child = self._child if self._is_running() else await asyncio.to_thread(self._start)
        assert child is not None
        try:
            async with asyncio.timeout(self._seconds):
                await _write(_handle(child.stdin), _frame(request) + _frame(document))
                answer = orjson.loads(await _read(_handle(child.stdout)))
        except (OSError, EOFError, ValueError):  # TimeoutError is an OSError
            self.close()
            raise NotAFeed(f"parsing took more than {self._seconds:g} seconds or too much memory") from None
        except asyncio.CancelledError:  # the answer would stay in the pipe
            self.close()
            raise
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
        """Kill the child."""
        child, self._child = self._child, None
        if child is not None:
            child.kill()
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
    title, site, articles_fields, ttl_s, lang = answer["document"]
    articles = tuple([Article(*[*values, tuple(tags)]) for *values, tags in articles_fields])
    return ParsedFeed(title, site, articles, ttl_s, lang)


# Code of the child process


def _to_list(document: ParsedFeed) -> list[Any]:
    """Return the fields. `astuple` would copy every text, a third of the total time."""
    return [
        document.title,
        document.site,
        [_ARTICLE(article) for article in document.articles],
        document.ttl_s,
        document.lang,
    ]


def _answers(requests: IO[bytes]) -> Iterator[dict[str, Any]]:
    from tidings.crawl.parse import parse

    yield {}  # modules are loaded
    while length := requests.read(_LENGTH.size):
        content_type, url = orjson.loads(requests.read(_LENGTH.unpack(length)[0]))
        document = requests.read(_LENGTH.unpack(requests.read(_LENGTH.size))[0])
        try:
            yield {"document": _to_list(parse(document, content_type, url))}
        except NotAFeed as error:
            yield {"reason": error.reason, "feeds": error.feeds}
        except Exception as error:  # a hostile document can raise anything
            yield {"reason": f"cannot be parsed ({type(error).__name__}: {str(error)[:80]})", "feeds": ()}


def main() -> None:
    """Answer until the parent closes the pipe."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    with contextlib.suppress(BrokenPipeError):
        for answer in _answers(sys.stdin.buffer):
            sys.stdout.buffer.write(_frame(orjson.dumps(answer)))
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
