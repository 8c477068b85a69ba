"""`tidings hooks` may be killed at any moment: nothing is lost, and what comes again has the id it had."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from aiohttp import web
from tests.delivery.receivers import receiver
from tests.store.batches import ids, posts, run

from tidings.store import open_store

_COMMAND = (sys.executable, "-m", "tidings.cli.main", "hooks", "--allow", "loopback", "--state")
_MATCHES = 1_000
_KILLS = {1: "before", 3: "after", 6: "before"}  # at which request, and whether it is answered first


def test_killed_in_the_middle_it_loses_nothing_and_repeats_only_under_the_same_id(tmp_path):
    got, repeats = asyncio.run(_killed_again_and_again(tmp_path))
    with open_store(tmp_path) as store:
        expected = ids(store, 1)
        (hook,) = store.webhooks.of(1)
    assert len(expected) == _MATCHES
    once = {one.id: one for one in got}
    assert [post for one in once.values() for post in one.posts] == expected
    assert all(one.body == once[one.id].body for one in got)
    assert (hook.messages, hook.matches, hook.pending) == (len(once), _MATCHES, None)
    assert len(got) == len(once) + repeats
    assert repeats >= 2, "a request that was never answered is sent again"


async def _killed_again_and_again(where):
    process = None

    async def answer(request: web.Request) -> web.StreamResponse:
        how = _KILLS.get(len(at.got))
        if how == "after":
            asyncio.get_running_loop().call_later(0.001, _kill, process)
        elif how == "before":
            _kill(process)
        return web.Response(status=204)

    async with receiver(answer) as at:
        with open_store(where) as store:
            tea = store.subscribe("tea")
            hook = store.webhooks.add(tea, at.url)
            everything = [(tea, row) for row in range(_MATCHES)]
            run(store, 0, posts(list(range(_MATCHES))), everything)
            for _ in range(len(_KILLS) + 1):
                process = await asyncio.create_subprocess_exec(*_COMMAND, str(where))
                ended = asyncio.create_task(process.wait())
                while not ended.done() and store.webhooks.get(hook.name).matches < _MATCHES:
                    await asyncio.sleep(0.02)
                if not ended.done():
                    break
            process.send_signal(signal.SIGTERM)
            assert await ended == 0
            return at.got, len(at.got) - store.webhooks.get(hook.name).messages


def _kill(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        os.kill(process.pid, signal.SIGKILL)
