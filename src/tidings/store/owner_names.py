"""Names of owners: a small alphabet, and no two names that people confuse."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache

from tidings.errors import InputError

MAX_CHARACTERS = 64
_NAME = re.compile(rf"(?=.{{1,{MAX_CHARACTERS}}}$)[a-z0-9]+([._-][a-z0-9]+)*", re.ASCII)
_SEPARATORS = re.compile(r"[^a-z0-9]+")
_LOOKALIKES = (("0", "o"), ("1", "l"), ("rn", "m"), ("vv", "w"))


def check_name(name: str) -> None:
    """Raise InputError unless the name of a new owner is valid. Letters of other scripts may look like Latin ones."""
    if not _NAME.fullmatch(name):
        raise InputError(
            f"Owner {_show(name)}: not a valid name. Use up to {MAX_CHARACTERS} lower-case letters (a-z) and digits, "
            "with single '.', '_' or '-' between them."
        )


def check_lookalike(name: str, other: str) -> None:
    """Raise InputError if the name of a new owner looks like that of another owner."""
    if name_skeleton(other) == name_skeleton(name):
        raise InputError(f"Owner {name}: looks like the owner {other}. Choose a name that differs clearly.")


def find_invalid_names(names: Iterable[str], owners: Sequence[str] = ()) -> dict[str, str]:
    """Return the names that new owners cannot get if there are these owners, with the reasons. An empty name is none.

    The names of the owners themselves are valid.
    """
    skeletons = {name_skeleton(owner): owner for owner in owners}
    invalid: dict[str, str] = {}
    valid = {"", *owners}
    for name in dict.fromkeys(names):
        if name in valid:
            continue
        try:
            check_name(name)
            check_lookalike(name, skeletons.get(name_skeleton(name), ""))
        except InputError as error:
            invalid[name] = str(error)
    return invalid


@lru_cache(maxsize=1 << 14)  # a new name is compared with those of all owners
def name_skeleton(name: str) -> str:
    """Return what names that look alike have in common. Older stores may have names that are not valid now."""
    skeleton = _SEPARATORS.sub("-", unicodedata.normalize("NFKC", name).casefold()).strip("-")
    for characters, lookalike in _LOOKALIKES:
        skeleton = skeleton.replace(characters, lookalike)
    return skeleton


def _show(name: str) -> str:
    """Return the name with everything that could hide something as an escape sequence."""
    return ascii(name[: 2 * MAX_CHARACTERS])
