"""Limit the interim responses (status 1xx) to a request: aiohttp reads any number of them."""

from __future__ import annotations

from typing import Any, cast

import aiohttp
from aiohttp.client_reqrep import ClientResponse
from aiohttp.connector import Connection

MAX_INTERIM_RESPONSES = 10


class TooManyInterimResponses(aiohttp.ClientError):
    """A server sent interim responses, such as 103, without an end."""


class LimitedResponse(ClientResponse):
    """A response after at most MAX_INTERIM_RESPONSES interim ones, the `response_class` of a guarded session."""

    async def start(self, connection: Connection) -> ClientResponse:
        """Read the head of the response. Raises TooManyInterimResponses."""
        return await super().start(cast(Connection, _CountingConnection(connection)))


class _CountingConnection:
    """A connection whose protocol reads a limited number of response heads."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._protocol = _CountingProtocol(connection.protocol)

    @property
    def protocol(self) -> Any:
        return None if self._connection.protocol is None else self._protocol

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


class _CountingProtocol:
    def __init__(self, protocol: Any) -> None:
        self._protocol, self._heads = protocol, 0

    async def read(self) -> Any:
        self._heads += 1
        if self._heads > MAX_INTERIM_RESPONSES + 1:
            raise TooManyInterimResponses
        return await self._protocol.read()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._protocol, name)
