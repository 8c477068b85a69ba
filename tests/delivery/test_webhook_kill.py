"""`tidings webhooks` may be killed at any time: nothing is lost, and repeated messages keep their ids."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from aiohttp import web
from tests.delivery.receivers import receiver
from tests.store.batches import posts, read_ids, run_batch

from tidings.store import open_store

_COMMAND = (sys.executable, "-m", "tidings.cli.main", "webhooks", "--allow", "loopback", "--state")
_MATCHES = 1_000
_KILLS = {1: "before", 3: "after", 6: "before"}  # number of the request: kill before or after the answer


def test_a_killed_sender_loses_nothing_and_repeats_messages_with_the_same_id(tmp_path):
    requests, repeats = asyncio.run(_kill_repeatedly(tmp_path))
    with open_store(tmp_path) as store:
        expected = read_ids(store, 1)
        (hook,) = store.webhooks.of_subscription(1)
    assert len(expected) == _MATCHES
    by_id = {request.id: request for request in requests}
    assert [post for request in by_id.values() for post in request.posts] == expected
    assert all(request.body == by_id[request.id].body for request in requests)
    assert (hook.messages, hook.matches, hook.pending) == (len(by_id), _MATCHES, None)
    assert len(requests) == len(by_id) + repeats
    assert repeats >= 2, "a request without an answer is sent again"


async def _kill_repeatedly(location):
    process = None

    async def answer(request: web.Request) -> web.StreamResponse:
        kill = _KILLS.get(len(at.requests))
        if kill == "after":
            asyncio.get_running_loop().call_later(0.001, _kill, process)
        elif kill == "before":
            _kill(process)
        return web.Response(status=204)

    async with receiver(answer) as at:
        with open_store(location) as store:
            tea = store.subscriptions.add("tea")
            hook = store.webhooks.add(tea, at.url)
            everything = [(tea, row) for row in range(_MATCHES)]
            run_batch(store, 0, posts(list(range(_MATCHES))), everything)
            for _ in range(len(_KILLS) + 1):
                process = await asyncio.create_subprocess_exec(*_COMMAND, str(location))
                ended = asyncio.create_task(process.wait())
                while not ended.done() and store.webhooks.get(hook.name).matches < _MATCHES:
                    await asyncio.sleep(0.02)
                if not ended.done():
                    break
            process.send_signal(signal.SIGTERM)
            assert await ended == 0
            return at.requests, len(at.requests) - store.webhooks.get(hook.name).messages


def _kill(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        os.kill(process.pid, signal.SIGKILL)
