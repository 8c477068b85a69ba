"""Validate JSON from clients row by row, with work and memory that are bounded by the size of valid input.

A JSON parser builds every value before a model can reject the first one, and a model collects every error: 8 MB of
`[[],[],…]` took seconds and hundreds of megabytes. Here a scanner finds the rows of a list without building anything.
It stops at the first row too many, and at the first row with more parts than a valid row has. A row that passes is
parsed and validated alone, and the first invalid row ends the work. No step holds the interpreter for long.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from tidings.errors import InputError
from tidings.web.errors import describe_problem

MAX_PARTS = 1_000  # strings, commas and opening brackets per row: a post with ten fields and a hundred tags has 240
_BLANKS = b" \t\r\n"
_TOKEN = re.compile(rb'"(?:[^"\\]+|\\.)*+"|[][{},]|"', re.DOTALL)  # possessive, so linear; the last: a string no end
_LONE_QUOTE, _COMMA, _END = b'"', b",", b"]"

Model = TypeVar("Model", bound=BaseModel)


def parse_object(document: bytes, model: type[Model]) -> Model:
    """Return the one object of a document. Raises InputError that names the field."""
    rows = _split_rows(b"[%b]" % document)
    row = next(rows, None)
    if row is None:
        raise InputError("The request body is empty. Send a JSON object.")
    if next(rows, None) is not None:
        raise _invalid_json()
    return _validate(row, model, None)


def parse_list(document: bytes, model: type[Model], max_rows: int) -> list[Model]:
    """Return the objects of a list. Raises InputError that names the first invalid row and its field."""
    parsed = []
    for number, row in enumerate(_split_rows(document), 1):
        if number > max_rows:
            raise InputError(f"The list has more than {max_rows:,} rows. Send less per request.")
        parsed.append(_validate(row, model, number))
    return parsed


def is_list(document: bytes) -> bool:
    """Return whether a document starts like a JSON list."""
    return document.lstrip(_BLANKS).startswith(b"[")


def _split_rows(document: bytes) -> Iterator[bytes]:
    """Yield the text of each row of a list; a row may still be invalid JSON."""
    start, number, depth, parts = document.index(b"[") + 1, 1, 0, 0
    for token in _TOKEN.finditer(document, start):
        at, text = token.start(), token[0][:2]
        if depth == 0 and text == _COMMA:
            yield document[start:at]
            start, number, parts = at + 1, number + 1, 0
        elif depth == 0 and text == _END:
            yield from _last_row(document[start:at], document[at + 1 :], number)
            return
        elif text == _LONE_QUOTE:
            break
        else:
            depth += (text in b"[{") - (text in b"]}")
            parts += text not in b"]}"
        if parts > MAX_PARTS:
            raise InputError(f"There are too many values (row {number}). Send fewer fields and tags.")
    raise _invalid_json(number)


def _last_row(row: bytes, rest: bytes, number: int) -> Iterator[bytes]:
    """Yield the row before the end of the list, unless the list is empty; nothing may follow the end."""
    if rest.strip(_BLANKS):
        raise _invalid_json(number)
    if number > 1 or row.strip(_BLANKS):
        yield row


def _invalid_json(row: int | None = None) -> InputError:
    return InputError(f"The request body is not valid JSON{'' if row is None else f' (row {row})'}.")


def _validate(row: bytes, model: type[Model], number: int | None) -> Model:
    try:
        return model.model_validate_json(row)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_context=False, include_input=False)[0]
        raise InputError(describe_problem(problem["loc"], problem["msg"], number)) from None
