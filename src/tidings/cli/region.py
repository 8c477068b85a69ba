"""The option `--region W,S,E,N`: read as `within:` is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidings.errors import InputError, QueryError

if TYPE_CHECKING:
    from tidings.query.normal import Region


def typed_region(typed: str | None) -> Region | None:
    """The region that was typed; InputError with the reason when it is none."""
    if typed is None:
        return None
    from tidings.query.region import PREFIX, within

    try:
        return within(PREFIX + typed.replace(" ", ""), 0)
    except QueryError as error:
        raise InputError(f"--region {typed}: {error.reason}") from error
