"""A local HTTP server that serves the recorded history of feeds at a simulated time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from hashlib import blake2b

from aiohttp import web

from tidings_lab.history import FeedHistory, RecordedFeed


@dataclass(slots=True)
class ReplayServer:
    """Serves the document of each feed at the time `now`, compressed if `compresses` and the client accepts it."""

    history: FeedHistory
    now: float = 0.0
    compresses: bool = True
    port: int = 0
    request_bytes: int = 0  # sum of all requests
    _feeds: dict[str, RecordedFeed] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._feeds = {feed.name: feed for feed in self.history.feeds}

    def url(self, feed: RecordedFeed) -> str:
        return f"http://127.0.0.1:{self.port}/{feed.name}"

    @asynccontextmanager
    async def listen(self) -> AsyncIterator[ReplayServer]:
        """Accept requests while the context is open."""
        app = web.Application()
        app.router.add_get("/{feed}", self._answer)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.port = runner.addresses[0][1]
        try:
            yield self
        finally:
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        """Return the document, or 304 if the client has it."""
        self.request_bytes += len(request.raw_path) + 17 + sum(len(k) + len(v) + 4 for k, v in request.raw_headers)
        feed = self._feeds.get(request.match_info["feed"])
        document = None if feed is None else feed.document(self.now)
        if document is None:
            raise web.HTTPNotFound
        etag = f'"{blake2b(document, digest_size=12).hexdigest()}"'
        if request.headers.get("If-None-Match") == etag:
            return web.Response(status=304, headers={"ETag": etag})
        answer = web.Response(body=document, content_type="application/rss+xml", headers={"ETag": etag})
        if self.compresses:
            answer.enable_compression()
        return answer
