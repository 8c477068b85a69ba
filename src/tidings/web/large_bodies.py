"""Limit the large request bodies that are in memory at once, in total and per owner."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TypeVar

from tidings.web.errors import HttpError
from tidings.web.owner_turns import OwnerTurns

_MAX_TOTAL_BYTES = 64 << 20
_MAX_REQUESTS_PER_OWNER = 16
_PARSERS = 2
_RETRY_S = 5

Result = TypeVar("Result")


class LargeBodies:
    """One large body per owner at a time: further requests of that owner wait without being read.

    So an owner delays only itself. Beyond the total, requests of any owner get 503. Large bodies are parsed in threads
    of their own, so that small requests never wait for them.
    """

    def __init__(self) -> None:
        self._turns = OwnerTurns(1, _MAX_REQUESTS_PER_OWNER)
        self.reserved_bytes = 0
        self._parsers = ThreadPoolExecutor(_PARSERS, "tidings-body")

    @asynccontextmanager
    async def slot(self, owner: str, size_bytes: int) -> AsyncIterator[None]:
        """Hold the place for a body of an owner. Raises QuotaExceeded if too many wait, HttpError if memory is full."""
        async with self._turns.turn(owner):
            self._reserve(size_bytes)
            try:
                yield
            finally:
                self.reserved_bytes -= size_bytes

    def _reserve(self, size_bytes: int) -> None:
        if self.reserved_bytes + size_bytes > _MAX_TOTAL_BYTES:
            raise HttpError(
                503, "The server has too many large requests now. Retry later.", {"Retry-After": f"{_RETRY_S}"}
            )
        self.reserved_bytes += size_bytes

    async def parse(self, function: Callable[[bytes], Result], body: bytes) -> Result:
        """Call a function in a thread for large bodies."""
        return await asyncio.get_running_loop().run_in_executor(self._parsers, function, body)
