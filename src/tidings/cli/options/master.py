"""Whether a Spark master can be meant: asked before Spark is started, which would take a minute to find out."""

from __future__ import annotations

import re
import socket

from tidings.errors import InputError

_LOCAL = re.compile(r"local|local\[(\*|[1-9]\d*)(\s*,\s*[1-9]\d*)?\]|local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]")
_STANDALONE = re.compile(r"spark://([^/:,\s]+:\d+(?:,[^/:,\s]+:\d+)*)")
_OTHERS = re.compile(r"yarn|k8s://\S+")
_KNOWN = "local[2], local[*], spark://HOST:PORT, yarn or k8s://URL"
_ANSWER_SECONDS = 3.0


def check_master(master: str | None) -> None:
    """InputError when this is no Spark master, or one that does not answer."""
    if master is None or _LOCAL.fullmatch(master) or _OTHERS.fullmatch(master):
        return
    standalone = _STANDALONE.fullmatch(master)
    if standalone is None:
        raise InputError(f"--master {master}: this is no Spark master; write for example {_KNOWN}.")
    if not any(_answers(address) for address in standalone[1].split(",")):
        raise InputError(f"--master {master}: nothing answers there; is the master running?")


def _answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=_ANSWER_SECONDS):
            return True
    except (OSError, OverflowError):
        return False
