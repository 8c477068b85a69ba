"""What Spark's exceptions mean, in one sentence, where they mean something the user can mend."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

from tidings.errors import InputError, OutputError, TidingsError

_NO_SPACE = ("No space left on device", "Disk quota exceeded", "File too large")
_UNREADABLE = re.compile(r"(?:while reading file|reading the file) (?:file:/*)?(/?[^\n]*?)\.?\s*(?:SQLSTATE|\n|$)")
_OURS = re.compile(r"^tidings\.errors\.\w+: (.+)$", re.MULTILINE)  # raised by a worker, told by Spark
_NO_PYTHON = re.compile(r'Cannot run program "([^"]+)"')
_NO_MODULE = re.compile(r"Error from python worker:\s+.*No module named '?([\w.]+)|ModuleNotFoundError: .*'(tidings)")
_OTHER_PYTHON = re.compile(r"Python in worker has (?:a )?different version[:\s]+(\d[\d.]*).*?driver[:\s]+(\d[\d.]*\d)")
_HOW = "or set PYSPARK_PYTHON to the path of one there that has it (docs/deploy.md)."
_INSTEAD = "put a whole one in its place, or leave it out"
_CAUSE = re.compile(r"^[\w.$]*?(\w+(?:Exception|Error))(?:: (.*))?$")


def in_words(error: BaseException, out: Path, instead: str = _INSTEAD) -> TidingsError | None:
    """The error as one of ours, with its sentence; None when nothing better can be said than what it says itself.

    `instead` is what to do about a file of posts that is damaged.
    """
    told = list(_messages(error))
    everything = "\n".join(told)
    if any(sign in everything for sign in _NO_SPACE):
        return OutputError(
            f"{out}: there is no space left to write it (or for Spark's temporary files); "
            "nothing half-written was left behind."
        )
    if (known := _of_workers(everything)) is not None:
        return known
    if unreadable := _UNREADABLE.search(everything):
        reason = _innermost(told)
        file = f"/{unquote(unreadable[1]).lstrip('/')}"
        return InputError(f"{file}: this file is damaged and cannot be read ({reason}); {instead}.")
    if "OutOfMemoryError" in everything or "Java heap space" in everything:
        return TidingsError("Spark ran out of memory; run fewer at a time: --master 'local[1]', or smaller files.")
    return None


def _of_workers(everything: str) -> InputError | None:
    """What is wrong with the workers' Python, or what code of ours said there."""
    if said := _OURS.search(everything):
        return InputError(said[1])
    if missing := _NO_PYTHON.search(everything):
        return InputError(f"The workers cannot run {missing[1]}; install Tidings there under the same path, {_HOW}")
    if other := _OTHER_PYTHON.search(everything):
        return InputError(f"The workers have Python {other[1]}, this is {other[2]}; install {other[2]} there, {_HOW}")
    if lacking := _NO_MODULE.search(everything):
        return InputError(f"The Python of the workers has no {lacking[1] or lacking[2]}; install Tidings there, {_HOW}")
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
