"""``python -m tidings.lab.feed_server HOSTS``: any number of feeds on so many addresses of loopback; prints the port.

Real documents where they are (`feeds.zip`), else made up. Feed n shows document n, compressed, with an ETag.
"""

from __future__ import annotations

import asyncio
import gzip
import sys
import zipfile
from hashlib import blake2b

from aiohttp import web

from tidings.lab import datasets

ZIP = "feeds.zip"
_MADE = 50
_SMALL_BYTES = 200_000  # larger documents are rare, and would be all that is measured


def documents() -> list[bytes]:
    """Feeds in many formats."""
    folder = datasets.data_folder()
    if folder is None or not (folder / ZIP).is_file():
        return [_made(number) for number in range(_MADE)]
    with zipfile.ZipFile(folder / ZIP) as archive:
        return [archive.read(one) for one in archive.infolist() if one.file_size < _SMALL_BYTES]


def _made(number: int) -> bytes:
    items = "".join(
        f"<item><guid>{number}-{n}</guid><title>Article {n}</title><link>https://f{number}.example/{n}</link>"
        f"<description>{'What there is to say about it. ' * 20}</description></item>"
        for n in range(20)
    )
    head = f"<title>Feed {number}</title><link>https://f{number}.example/</link>"
    return f'<?xml version="1.0"?><rss version="2.0"><channel>{head}{items}</channel></rss>'.encode()


def application() -> web.Application:
    """Answers ``/NAME/N``."""
    packed = [(gzip.compress(one, 6), f'"{blake2b(one, digest_size=8).hexdigest()}"') for one in documents()]

    async def answer(request: web.Request) -> web.Response:
        body, etag = packed[int(request.match_info["number"]) % len(packed)]
        if request.headers.get("If-None-Match") == etag:
            return web.Response(status=304, headers={"ETag": etag})
        return web.Response(body=body, headers={"ETag": etag, "Content-Encoding": "gzip", "Content-Type": "text/xml"})

    app = web.Application()
    app.router.add_get(r"/{name}/{number:\d+}", answer)
    return app


def host(number: int) -> str:
    """The address of a host."""
    return f"127.1.{number // 250}.{number % 250 + 1}"


async def _serve(app: web.Application, hosts: int) -> None:
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    port = 0
    for number in range(hosts):
        await web.TCPSite(runner, host(number), port).start()
        port = runner.addresses[0][1]
    print(port, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(application(), int(sys.argv[1])))
