"""Check the option `--master` before Spark starts, which would take a minute to reject it."""

from __future__ import annotations

import re
import socket

from tidings.errors import InputError

_LOCAL = re.compile(r"local|local\[(\*|[1-9]\d*)(\s*,\s*[1-9]\d*)?\]|local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]")
_STANDALONE = re.compile(r"spark://([^/:,\s]+:\d+(?:,[^/:,\s]+:\d+)*)")
_CLUSTER_MANAGER = re.compile(r"yarn|k8s://\S+")
_EXAMPLES = "local[2], local[*], spark://HOST:PORT, yarn or k8s://URL"
_CONNECT_TIMEOUT_S = 3.0


def check_master(master: str | None) -> None:
    """Raise InputError if this is not a Spark master URL, or no standalone master accepts connections there."""
    if master is None or _LOCAL.fullmatch(master) or _CLUSTER_MANAGER.fullmatch(master):
        return
    standalone = _STANDALONE.fullmatch(master)
    if standalone is None:
        raise InputError(f"--master {master}: not a Spark master URL. Expected for example {_EXAMPLES}.")
    if not any(_accepts_connections(address) for address in standalone[1].split(",")):
        raise InputError(f"--master {master}: no connection. Check that the master runs.")


def _accepts_connections(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=_CONNECT_TIMEOUT_S):
            return True
    except (OSError, OverflowError):
        return False
