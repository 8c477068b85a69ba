"""When a server wants to be asked again: the header `Retry-After`, in seconds or as a date."""

from __future__ import annotations

from datetime import UTC
from email.utils import parsedate_to_datetime


def wait_s(header: str | None, now: float) -> float | None:
    """The seconds it says, from now on and not below 0; None where it says nothing that can be understood."""
    text = (header or "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:12])
    try:
        then = parsedate_to_datetime(text)
        return max(0.0, (then if then.tzinfo else then.replace(tzinfo=UTC)).timestamp() - now)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
