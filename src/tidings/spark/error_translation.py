"""Translate exceptions of Spark to one-sentence errors, where the user can do something about them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

from tidings.errors import InputError, OutputError, TidingsError

_NO_SPACE = ("No space left on device", "Disk quota exceeded", "File too large")
_UNREADABLE_FILE = re.compile(r"(?:while reading file|reading the file) (?:file:/*)?(/?[^\n]*?)\.?\s*(?:SQLSTATE|\n|$)")
_WORKER_ERROR = re.compile(r"^tidings\.errors\.\w+: (.+)$", re.MULTILINE)  # raised by our code in a worker
_NO_PYTHON = re.compile(r'Cannot run program "([^"]+)"')
_NO_MODULE = re.compile(r"Error from python worker:\s+.*No module named '?([\w.]+)|ModuleNotFoundError: .*'(tidings)")
_OTHER_PYTHON = re.compile(r"Python in worker has (?:a )?different version[:\s]+(\d[\d.]*).*?driver[:\s]+(\d[\d.]*\d)")
_WORKER_CRASHED = ("Python worker exited unexpectedly", "Python worker failed to connect back")
_HINT = "or set PYSPARK_PYTHON to a Python there that has it."
_FILE_HINT = "Replace it, or leave it out"
_CAUSE = re.compile(r"^[\w.$]*?(\w+(?:Exception|Error))(?:: (.*))?$")


def translate(error: BaseException, out: Path, file_hint: str = _FILE_HINT) -> TidingsError | None:
    """Return the error as a TidingsError, or None if it is not known. `file_hint` is the advice for damaged files."""
    messages = list(_messages(error))
    text = "\n".join(messages)
    if any(sign in text for sign in _NO_SPACE):
        return OutputError(
            f"{out}: no space left on the device, or for Spark's temporary files. No partial result was left."
        )
    if (error_of_worker := _translate_worker_error(text)) is not None:
        return error_of_worker
    if unreadable := _UNREADABLE_FILE.search(text):
        reason = _innermost_cause(messages)
        file = f"/{unquote(unreadable[1]).lstrip('/')}"
        return InputError(f"{file}: the file is damaged ({reason}). {file_hint}.")
    if any(sign in text for sign in _WORKER_CRASHED):
        return TidingsError(
            "A Python worker of Spark was killed or crashed. The kernel may have run out of memory: use fewer cores "
            "(--master 'local[1]') or smaller files, or give the machine more memory."
        )
    if "OutOfMemoryError" in text or "Java heap space" in text:
        return TidingsError("Spark ran out of memory. Use fewer cores (--master 'local[1]') or smaller files.")
    return None


def _translate_worker_error(text: str) -> InputError | None:
    """Return the error that our code raised in a worker, or what is wrong with the Python of the workers."""
    if raised := _WORKER_ERROR.search(text):
        return InputError(raised[1])
    if missing := _NO_PYTHON.search(text):
        return InputError(f"Workers cannot run {missing[1]}. Install Tidings there under the same path, {_HINT}")
    if other := _OTHER_PYTHON.search(text):
        return InputError(f"Workers have Python {other[1]}, the driver {other[2]}. Install {other[2]} there, {_HINT}")
    if lacking := _NO_MODULE.search(text):
        return InputError(f"The Python of the workers lacks {lacking[1] or lacking[2]}. Install Tidings there, {_HINT}")
    return None


def _messages(error: BaseException) -> Iterator[str]:
    """Yield the messages of all exceptions in the chain, Python's and Java's, outermost first."""
    current: BaseException | None = error
    while current is not None:
        yield str(current)
        yield from _java_messages(getattr(current, "_origin", None) or getattr(current, "java_exception", None))
        current = current.__cause__ or current.__context__


def _java_messages(throwable: object | None) -> Iterator[str]:
    for _ in range(20):
        if throwable is None:
            return
        yield str(throwable.toString())  # type: ignore[attr-defined]
        throwable = throwable.getCause()  # type: ignore[attr-defined]


def _innermost_cause(messages: list[str]) -> str:
    """Return the last message that has more than the name of its exception."""
    for message in reversed(messages):
        cause = _CAUSE.match(message.strip().splitlines()[0]) if message.strip() else None
        if cause and cause[2]:
            return cause[2].rstrip(".")
    return "the content does not match the file type"
