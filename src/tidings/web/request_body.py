"""Read request bodies: authenticate first, then read within a limit, then parse in a thread.

A route takes its body as a dependency of this module, never as a FastAPI parameter: FastAPI reads and parses a body in
the event loop before it calls any dependency, so before it knows who sent it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

from fastapi import Depends, Request
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from tidings.web.context import Context, Owner
from tidings.web.errors import HttpError
from tidings.web.json_rows import parse_object

SMALL_BODY_BYTES, LARGE_BODY_BYTES = 64 << 10, 8 << 20
REFERENCE = "#/components/schemas/{model}"

Parsed = TypeVar("Parsed")


def json_body(model: type[BaseModel]) -> Any:
    """Return the dependency of a route that takes one JSON object of up to 64 KB."""

    async def read(request: Request, owner: Owner) -> BaseModel:
        body = await _read_body(request, SMALL_BODY_BYTES)
        return await run_in_threadpool(parse_object, body, model)

    return Depends(read)


def large_body(parse: Callable[[bytes], Parsed]) -> Any:
    """Return the dependency of a route that takes up to 8 MB; `parse` runs in a thread and may raise InputError."""

    async def read(request: Request, owner: Owner, context: Context) -> AsyncIterator[Parsed]:
        size_bytes = min(_declared_bytes(request, LARGE_BODY_BYTES), LARGE_BODY_BYTES)
        if size_bytes <= SMALL_BODY_BYTES:
            yield await run_in_threadpool(parse, await _read_body(request, SMALL_BODY_BYTES))
            return
        async with context.large_bodies.slot(owner, size_bytes):
            yield await context.large_bodies.parse(parse, await _read_body(request, LARGE_BODY_BYTES))

    return Depends(read)


def _declared_bytes(request: Request, default: int) -> int:
    """Return the length that the client declared; `default` if it sends chunks."""
    value = request.headers.get("content-length", "")
    return int(value) if value.isascii() and value.isdigit() and len(value) < 19 else default


async def _read_body(request: Request, max_bytes: int) -> bytes:
    """Return the body. Raises HttpError 413 as soon as it is known to be too large."""
    if _declared_bytes(request, 0) > max_bytes:
        raise _too_large(max_bytes)
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > max_bytes:
                raise _too_large(max_bytes)
    except ClientDisconnect:
        raise HttpError(400, "The request body is incomplete.") from None
    return bytes(body)


def _too_large(max_bytes: int) -> HttpError:
    limit = f"{max_bytes >> 20} MB" if max_bytes >> 20 else f"{max_bytes >> 10} KB"
    return HttpError(413, f"The request body is too large (at most {limit}). Send less per request.")


def describe_json(schema: type[BaseModel] | dict[str, Any]) -> dict[str, Any]:
    """Return the OpenAPI description of a JSON body, which FastAPI cannot derive from a dependency."""
    if isinstance(schema, type):
        schema = {"$ref": REFERENCE.format(model=schema.__name__)}
    return describe_body("application/json", schema)


def describe_body(media_type: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Return the OpenAPI description of a body."""
    return {"requestBody": {"required": True, "content": {media_type: {"schema": schema}}}}
