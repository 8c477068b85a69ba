"""Parsing where it can be killed: a child process with bounded memory and time, asked over pipes.

The child lives on for the next document. A document that is too much for it costs that child, and its feed an error.
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

from tidings.crawl.article import Article, Document, NotAFeed

SECONDS = 5.0
_MEMORY_BYTES = 1 << 30
_LENGTH = struct.Struct("!I")
_PIPE_BYTES = 1 << 20
_LOADING_S = 60.0
_ARTICLE = attrgetter(*(one.name for one in fields(Article)))


class Parser:
    """One child, made when first needed and again after it had to be killed. It reads one document at a time."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._child: subprocess.Popen[bytes] | None = None

    async def parse(self, document: bytes, content_type: str, url: str) -> Document:
        """As `parse.parse`, but whatever it does takes no longer than it may; NotAFeed also where it was killed.

        The event loop itself talks to the child: a thread would wait for the interpreter at every word.
        """
        asked = orjson.dumps([content_type, url])
        child = self._child if self._is_running() else await asyncio.to_thread(self._started)
        assert child is not None
        try:
            async with asyncio.timeout(self._seconds):
                await _write(_handle(child.stdin), _framed(asked) + _framed(document))
                answer = orjson.loads(await _read(_handle(child.stdout)))
        except (OSError, EOFError, ValueError):  # a timeout is an OSError
            self.close()
            raise NotAFeed(f"reading it took more than {self._seconds:g} seconds or too much memory") from None
        except asyncio.CancelledError:  # nobody will hear its answer
            self.close()
            raise
        return _document(answer)

    def _is_running(self) -> bool:
        return self._child is not None and self._child.poll() is None

    def _started(self) -> subprocess.Popen[bytes]:
        self.close()
        source = str(Path(__file__).parents[2])  # where this very Tidings lies
        known = os.pathsep.join([source, *filter(None, [os.environ.get("PYTHONPATH")])])
        self._child = child = subprocess.Popen(
            [sys.executable, "-m", "tidings.crawl.parser_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": known},
            bufsize=0,
            start_new_session=True,  # Ctrl-C is for whoever asks, who finishes the round
        )
        _until_loaded(_handle(child.stdout))
        for pipe in (child.stdin, child.stdout):
            os.set_blocking(_handle(pipe), False)
            with contextlib.suppress(OSError):  # a whole document at once, where the system grants it
                fcntl.fcntl(_handle(pipe), fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        return child

    def close(self) -> None:
        """End the child."""
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


def _until_loaded(handle: int) -> None:
    """It says so when it has loaded its modules."""
    ready, _, _ = select.select([handle], [], [], _LOADING_S)
    if not ready or not os.read(handle, _LENGTH.size + len(b"{}")):
        raise OSError("the child that reads documents did not start")


def _framed(message: bytes) -> bytes:
    return _LENGTH.pack(len(message)) + message


async def _write(handle: int, message: bytes) -> None:
    rest = memoryview(message)
    while rest:
        try:
            rest = rest[os.write(handle, rest) :]
        except BlockingIOError:
            loop = asyncio.get_running_loop()
            await _once(handle, loop.add_writer, loop.remove_writer)


async def _read(handle: int) -> bytes:
    (length,) = _LENGTH.unpack(await _exactly(handle, _LENGTH.size))
    return await _exactly(handle, length)


async def _exactly(handle: int, count: int) -> bytes:
    read = bytearray()
    while len(read) < count:
        try:
            piece = os.read(handle, count - len(read))
        except BlockingIOError:
            loop = asyncio.get_running_loop()
            await _once(handle, loop.add_reader, loop.remove_reader)
            continue
        if not piece:
            raise EOFError
        read += piece
    return bytes(read)


async def _once(handle: int, watch: Callable[..., Any], unwatch: Callable[[int], bool]) -> None:
    """Until the pipe can be read or written."""
    ready = asyncio.Event()
    watch(handle, ready.set)
    try:
        await ready.wait()
    finally:
        unwatch(handle)


def _document(answer: dict[str, Any]) -> Document:
    if "reason" in answer:
        raise NotAFeed(answer["reason"], tuple(answer["feeds"]))
    title, site, listed, ttl_s, lang = answer["document"]
    articles = tuple([Article(*[*told, tuple(tags)]) for *told, tags in listed])
    return Document(title, site, articles, ttl_s, lang)


# the child's side


def _told(found: Document) -> list[Any]:
    """Field by field; `astuple` would copy every text, which takes a third of the time."""
    return [found.title, found.site, [_ARTICLE(one) for one in found.articles], found.ttl_s, found.lang]


def _answers(requests: IO[bytes]) -> Iterator[dict[str, Any]]:
    from tidings.crawl.parse import parse

    yield {}  # loaded
    while length := requests.read(_LENGTH.size):
        content_type, url = orjson.loads(requests.read(_LENGTH.unpack(length)[0]))
        document = requests.read(_LENGTH.unpack(requests.read(_LENGTH.size))[0])
        try:
            yield {"document": _told(parse(document, content_type, url))}
        except NotAFeed as error:
            yield {"reason": error.reason, "feeds": error.feeds}
        except (Exception, RecursionError) as error:  # whatever a stranger's document makes a parser do
            yield {"reason": f"it cannot be read ({type(error).__name__}: {str(error)[:80]})", "feeds": ()}


def main() -> None:
    """Answer until whoever asks is gone."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    with contextlib.suppress(BrokenPipeError):
        for answer in _answers(sys.stdin.buffer):
            sys.stdout.buffer.write(_framed(orjson.dumps(answer)))
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
