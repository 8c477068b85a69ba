"""Serve a state directory on a port until killed: `python -m tests.web.page.serve_state DIR PORT`."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from tests.web.conftest import live_server, open_context

if __name__ == "__main__":
    with open_context(Path(sys.argv[1])) as context, live_server(context, port=int(sys.argv[2])):
        print("ready", flush=True)
        signal.pause()
