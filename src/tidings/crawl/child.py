"""Parsing where it can be killed: a child process with bounded memory and time, asked over pipes.

The child lives on for the next document. A document that is too much for it costs that child, and its feed an error.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import fields
from operator import attrgetter
from pathlib import Path
from time import monotonic
from typing import IO, Any

from tidings.crawl.article import Article, Document, NotAFeed

SECONDS = 5.0
_MEMORY_BYTES = 1 << 30
_LENGTH = struct.Struct("!I")
_PIECE = 1 << 16
_ARTICLE = attrgetter(*(one.name for one in fields(Article)))


class Parser:
    """One child, made when first needed and again after it had to be killed. Threads may share it and take turns."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None

    def parse(self, document: bytes, content_type: str, url: str) -> Document:
        """As `parse.parse`, but whatever it does takes no longer than it may; NotAFeed also where it was killed."""
        asked = json.dumps([content_type, url]).encode()
        with self._lock:
            child = self._running()
            deadline = monotonic() + self._seconds
            try:
                _write(child.stdin, _framed(asked) + _framed(document), deadline)
                answer = json.loads(_read(child.stdout, deadline))
            except (OSError, EOFError, ValueError):
                self._kill()
                raise NotAFeed(f"reading it took more than {self._seconds:g} seconds or too much memory") from None
        return _document(answer)

    def _running(self) -> subprocess.Popen[bytes]:
        if self._child is None or self._child.poll() is not None:
            self._kill()
            source = str(Path(__file__).parents[2])  # where this very Tidings lies
            known = os.pathsep.join([source, *filter(None, [os.environ.get("PYTHONPATH")])])
            self._child = subprocess.Popen(
                [sys.executable, "-m", "tidings.crawl.child"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": known},
                bufsize=0,
                start_new_session=True,  # Ctrl-C is for whoever asks, who finishes the round
            )
            for pipe in (self._child.stdin, self._child.stdout):
                assert pipe is not None
                os.set_blocking(pipe.fileno(), False)
            _read(self._child.stdout, monotonic() + 60.0)  # it says when it has loaded its modules
        return self._child

    def _kill(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            child.wait()
            for pipe in (child.stdin, child.stdout):
                if pipe is not None:
                    pipe.close()

    def close(self) -> None:
        """End the child."""
        with self._lock:
            self._kill()


def _framed(message: bytes) -> bytes:
    return _LENGTH.pack(len(message)) + message


def _write(pipe: IO[bytes] | None, message: bytes, deadline: float) -> None:
    assert pipe is not None
    rest = memoryview(message)
    while rest:
        _, ready, _ = select.select([], [pipe], [], max(0.0, deadline - monotonic()))
        if not ready:
            raise EOFError
        rest = rest[os.write(pipe.fileno(), rest[:_PIECE]) :]


def _read(pipe: IO[bytes] | None, deadline: float) -> bytes:
    assert pipe is not None
    (length,) = _LENGTH.unpack(_exactly(pipe.fileno(), _LENGTH.size, deadline))
    return _exactly(pipe.fileno(), length, deadline)


def _exactly(handle: int, count: int, deadline: float) -> bytes:
    read = bytearray()
    while len(read) < count:
        ready, _, _ = select.select([handle], [], [], max(0.0, deadline - monotonic()))
        piece = os.read(handle, min(_PIECE, count - len(read))) if ready else b""
        if not piece:
            raise EOFError
        read += piece
    return bytes(read)


def _document(answer: dict[str, Any]) -> Document:
    if "reason" in answer:
        raise NotAFeed(answer["reason"], tuple(answer["feeds"]))
    title, site, listed, ttl_s, lang = answer["document"]
    articles = tuple([Article(*told[:-1], tuple(told[-1])) for told in listed])
    return Document(title, site, articles, ttl_s, lang)


# the child's side


def _told(found: Document) -> list[Any]:
    """Field by field; `astuple` would copy every text, which takes a third of the time."""
    return [found.title, found.site, [_ARTICLE(one) for one in found.articles], found.ttl_s, found.lang]


def _answers(requests: IO[bytes]) -> Iterator[dict[str, Any]]:
    from tidings.crawl.parse import parse

    yield {}  # loaded
    while length := requests.read(_LENGTH.size):
        content_type, url = json.loads(requests.read(_LENGTH.unpack(length)[0]))
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
            sys.stdout.buffer.write(_framed(json.dumps(answer).encode()))
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
