"""Errors of experiments; the tree of `tidings.errors` continues here."""

from __future__ import annotations

from tidings.errors import TidingsError


class ContendersDisagree(TidingsError):
    """Two contenders of a benchmark found different matches, so their speeds cannot be compared."""
