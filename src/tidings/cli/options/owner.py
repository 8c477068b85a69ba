"""Check names given with `--owner` or in files of subscriptions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidings.errors import InputError

if TYPE_CHECKING:
    from tidings.cli.options.state import StateLocation


def check_owner(location: StateLocation, name: str) -> None:
    """Raise InputError for a name that no owner has yet and that a new owner cannot get. The empty name is valid."""
    for reason in find_invalid_owners(location, [name]).values():
        raise InputError(reason)


def find_invalid_owners(location: StateLocation, names: Iterable[str]) -> dict[str, str]:
    """Return the names that `check_owner` rejects, with the reasons. A state that does not exist is not created."""
    from tidings.store.owner_names import find_invalid_names

    if not location.exists:
        return find_invalid_names(names)
    with location.open_or_create() as store:
        return store.accounts.find_invalid_owners(names)
