"""The socket of the server; it is opened before the web application is imported, which takes half a second."""

from __future__ import annotations

import socket

from tidings.errors import InputError

BACKLOG = 2_048


def open_listener(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 is any free port. Raises InputError."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)  # early clients wait until the server is ready
    except (OSError, TypeError) as error:  # TypeError: a name that is not a valid host name
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"--bind {host}:{port}: {reason}. Choose another address.") from error
    return listener
