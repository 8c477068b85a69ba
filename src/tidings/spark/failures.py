"""What Spark's exceptions mean, in one sentence, where they mean something the user can mend."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

from tidings.errors import InputError, OutputError, TidingsError

_NO_SPACE = ("No space left on device", "Disk quota exceeded", "File too large")
_UNREADABLE = re.compile(r"(?:while reading file|reading the file) (?:file:/*)?(/?[^\n]*?)\.?\s*(?:SQLSTATE|\n|$)")
_CAUSE = re.compile(r"^[\w.$]*?(\w+(?:Exception|Error))(?:: (.*))?$")


def in_words(error: BaseException, out: Path) -> TidingsError | None:
    """The error as one of ours, with its sentence; None when nothing better can be said than what it says itself."""
    told = list(_messages(error))
    everything = "\n".join(told)
    if any(sign in everything for sign in _NO_SPACE):
        return OutputError(
            f"{out}: there is no space left to write it (or for Spark's temporary files); "
            "nothing half-written was left behind."
        )
    if unreadable := _UNREADABLE.search(everything):
        reason = _innermost(told)
        return InputError(f"/{unquote(unreadable[1]).lstrip('/')}: this file is damaged and cannot be read ({reason}).")
    if "OutOfMemoryError" in everything or "Java heap space" in everything:
        return TidingsError("Spark ran out of memory; run fewer at a time: --master 'local[1]', or smaller files.")
    return None


def _messages(error: BaseException) -> Iterator[str]:
    """Everything that any exception in the chain says, Python's and Java's, the outermost first."""
    seen: BaseException | None = error
    while seen is not None:
        yield str(seen)
        yield from _java_messages(getattr(seen, "_origin", None) or getattr(seen, "java_exception", None))
        seen = seen.__cause__ or seen.__context__


def _java_messages(throwable: object | None) -> Iterator[str]:
    for _ in range(20):
        if throwable is None:
            return
        yield str(throwable.toString())  # type: ignore[attr-defined]
        throwable = throwable.getCause()  # type: ignore[attr-defined]


def _innermost(told: list[str]) -> str:
    """The last thing that says more than its own name."""
    for message in reversed(told):
        found = _CAUSE.match(message.strip().splitlines()[0]) if message.strip() else None
        if found and found[2]:
            return found[2].rstrip(".")
    return "its content is not what its name says"
