"""`tidings hooks`: the sender of webhooks, until it is told to end."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

from tidings.cli.allow import AllowOption
from tidings.cli.pipe import say
from tidings.cli.state import DEFAULT_STATE, StateOption, WorkOption, state_at

if TYPE_CHECKING:
    from tidings.deliver.webhook_send import Sender

HELP = """Send the matches of subscriptions to their webhooks, as they come, until Ctrl-C; `tidings serve` does it too.

Every message is signed as the Standard Webhooks specification has it, is sent again for three days when it is not
taken, and has the same `webhook-id` each time. Only public addresses are sent to."""
EXAMPLES = """[bold]Examples[/]

tidings hooks --state news

tidings hooks --state news --allow 10.1.0.0/16 [dim]# receivers inside[/]"""


def hooks(state: StateOption = DEFAULT_STATE, work: WorkOption = None, allow: AllowOption = None) -> None:
    """Open, send, end."""
    from tidings.outgoing.addresses import Allowed

    reached = Allowed.parse(allow or [])
    with state_at(state, work).open() as store, store.hold_sender():
        from tidings.deliver.webhook_send import Sender  # here: aiohttp takes its time

        asyncio.run(_until_told(Sender(store, reached, tell=say)))


async def _until_told(sender: Sender) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await sender.run(stop)
