"""What goes wrong, as answers: a status, one sentence, and for a query the place in it. Nothing else is ever told."""

from __future__ import annotations

import logging
import re
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
from tidings.text.sanitize import clean_text

_RETRY_S = 5
_SECRET = re.compile("^/read/[^/]*")
_LOG = logging.getLogger("tidings.web")
NO_TOKEN = "Send your token as `Authorization: Bearer TOKEN`; it is unknown or was revoked, or there is none."


class Problem(BaseModel):
    """Why a request was refused."""

    error: str = Field(description="One sentence that says what is wrong, or what to do.")
    position: int | None = Field(None, description="Of a query: the character, counted from 0, where it went wrong.")


class Refused(TidingsError):
    """An answer other than the one asked for."""

    def __init__(self, status: int, sentence: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(sentence)
        self.status, self.headers = status, headers


def missing(what: str) -> Refused:
    """The same whether it never was there, is gone, or is somebody else's."""
    return Refused(404, f"There is no such {what}.")


def unauthorised() -> Refused:
    return Refused(401, NO_TOKEN, {"WWW-Authenticate": "Bearer"})


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """These refusals, for the description of a route."""
    return {status: {"model": Problem} for status in statuses}


def answer_problems(app: FastAPI) -> None:
    """Have every error answered here."""
    app.add_exception_handler(TidingsError, told)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(OSError, _machine)


def _answer(
    status: int, error: str, headers: dict[str, str] | None = None, position: int | None = None
) -> JSONResponse:
    body = {"error": error} if position is None else {"error": error, "position": position}
    return JSONResponse(body, status, headers)


def told(request: Request, error: Exception) -> JSONResponse:
    """The answer that tells an error of ours."""
    match error:
        case Refused():
            return _answer(error.status, str(error), error.headers)
        case QueryError():
            return _answer(422, error.reason, position=error.position)
        case UnknownSubscription():
            return told(request, missing("subscription"))
        case UnknownFeed():
            return told(request, missing("feed"))
        case UnknownWebhook():
            return told(request, missing("webhook"))
        case UnknownOwner():
            return told(request, unauthorised())
        case QuotaExceeded():
            wait = None if error.retry_after_s is None else {"Retry-After": str(int(error.retry_after_s) + 1)}
            return _answer(429, str(error), wait)
        case StoreError():
            return _machine(request, error)
        case InputError():
            return _answer(422, str(error))
    return _machine(request, error)


def _machine(request: Request, error: Exception) -> JSONResponse:
    """Ours to mend: the reason is for who runs this, not for who asked."""
    _LOG.error("%s %s: %s", request.method, _told_path(request.scope["path"]), error)
    return _answer(503, "The server cannot do this now; try again in a moment.", {"Retry-After": str(_RETRY_S)})


def _told_path(path: str) -> str:
    """The path for a log: on one line, and without the secret of an address."""
    return " ".join(clean_text(_SECRET.sub("/read/…", path)).split())


def _invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"] if part != "body")
    return _answer(422, f"{where}: {first['msg']}." if where else f"{first['msg']}.")


def _http(request: Request, error: Exception) -> JSONResponse:
    """What Starlette itself refuses: an unknown path, another method, bytes that are no text."""
    assert isinstance(error, HTTPException)
    if error.status_code == 400:
        return _answer(422, "What was sent cannot be read; send JSON in UTF-8.")
    headers = dict(error.headers) if error.headers else None
    return _answer(error.status_code, f"{error.detail}.", headers)
