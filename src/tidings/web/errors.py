"""Errors as JSON responses: a status, one sentence, and for a query the position. No other detail is revealed."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from tidings.errors import (
    InputError,
    QueryError,
    QuotaExceeded,
    StoreError,
    TidingsError,
    UnknownFeed,
    UnknownOwner,
    UnknownSubscription,
    UnknownWebhook,
)
from tidings.log import Event
from tidings.text.sanitize import clean_text

LOG = logging.getLogger("tidings.web")
NO_TOKEN = "The token is missing, unknown or revoked. Send it as `Authorization: Bearer TOKEN`."
_RETRY_S = 5
_SECRET = re.compile("^/read/[^/]*")


class ErrorResponse(BaseModel):
    """Why a request was rejected."""

    error: str = Field(description="One sentence: what is wrong, or what to do.")
    position: int | None = Field(None, description="For a query: the 0-based character where the error is.")


class HttpError(TidingsError):
    """An error with its HTTP status and headers."""

    def __init__(self, status: int, sentence: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(sentence)
        self.status, self.headers = status, headers


def not_found_error(kind: str) -> HttpError:
    """Return the same error for a row that never existed, was removed or belongs to another owner."""
    return HttpError(404, f"There is no such {kind}.")


def unauthorized_error() -> HttpError:
    return HttpError(401, NO_TOKEN, {"WWW-Authenticate": "Bearer"})


def error_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI description of these error statuses."""
    return {status: {"model": ErrorResponse} for status in statuses}


def add_error_handlers(app: FastAPI) -> None:
    app.add_exception_handler(TidingsError, to_response)
    app.add_exception_handler(RequestValidationError, _invalid_request)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(OSError, _server_error)


def to_response(request: Request, error: Exception) -> JSONResponse:
    """Return the response for an error of Tidings."""
    match error:
        case HttpError():
            return _json(error.status, str(error), error.headers)
        case QueryError():
            return _json(422, error.reason, position=error.position)
        case UnknownSubscription():
            return to_response(request, not_found_error("subscription"))
        case UnknownFeed():
            return to_response(request, not_found_error("feed"))
        case UnknownWebhook():
            return to_response(request, not_found_error("webhook"))
        case UnknownOwner():
            return to_response(request, unauthorized_error())
        case QuotaExceeded():
            wait = None if error.retry_after_s is None else {"Retry-After": str(int(error.retry_after_s) + 1)}
            return _json(429, str(error), wait)
        case StoreError():
            return _server_error(request, error)
        case InputError():
            return _json(422, str(error))
    return _server_error(request, error)


def _json(status: int, error: str, headers: dict[str, str] | None = None, position: int | None = None) -> JSONResponse:
    body = {"error": error} if position is None else {"error": error, "position": position}
    return JSONResponse(body, status, headers)


def _server_error(request: Request, error: Exception) -> JSONResponse:
    """Log the reason for the administrator; the client only gets 503."""
    LOG.error(Event("request failed", method=request.method, path=_loggable(request.scope["path"]), error=error))
    return _json(503, "The server cannot do this now; try again in a moment.", {"Retry-After": str(_RETRY_S)})


def _loggable(path: str) -> str:
    """Return a path on one line and without the secret of a feed URL."""
    return " ".join(clean_text(_SECRET.sub("/read/…", path)).split())


def _invalid_request(request: Request, error: Exception) -> JSONResponse:
    """Name the parameter of the path, the query or the headers; bodies are validated by `json_rows`."""
    assert isinstance(error, RequestValidationError)
    problem = error.errors()[0]
    return _json(422, describe_problem(problem["loc"][1:], problem["msg"]))


def describe_problem(location: Sequence[str | int], message: str, row: int | None = None) -> str:
    """Return `lat: must be less than or equal to 90 (row 3).`"""
    fields = [part for part in location if isinstance(part, str) and part.isidentifier() and part.islower()]
    places = [f"item {part + 1}" for part in location if isinstance(part, int)] + ([f"row {row}"] if row else [])
    text = message.replace("Input should", "must", 1) if fields else message
    place = f" ({', '.join(places)})" if places else ""
    return f"{': '.join(['.'.join(fields), text] if fields else [text])}{place}."


def _http_error(request: Request, error: Exception) -> JSONResponse:
    """Convert errors of Starlette: an unknown path, a wrong method, a body that is not text."""
    assert isinstance(error, HTTPException)
    if error.status_code == 400:
        return _json(422, "The request body cannot be read. Send JSON in UTF-8.")
    headers = dict(error.headers) if error.headers else None
    return _json(error.status_code, f"{error.detail}.", headers)
