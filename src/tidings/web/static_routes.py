"""The web page: static files of this package."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Literal

from fastapi import APIRouter
from fastapi.responses import Response

_MEDIA_TYPES = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}

router = APIRouter(include_in_schema=False)


@router.api_route("/", methods=["GET", "HEAD"])
async def get_page() -> Response:
    return _file_response("index.html")


@router.api_route("/static/{name}", methods=["GET", "HEAD"])
async def get_file(name: Literal["page.js", "page.css", "icon.svg"]) -> Response:
    return _file_response(name)


def _file_response(name: str) -> Response:
    media_type = _MEDIA_TYPES[name.rpartition(".")[2]]
    return Response(_read_file(name), media_type=media_type, headers={"Cache-Control": "no-cache"})


@cache
def _read_file(name: str) -> bytes:
    return resources.files("tidings.web").joinpath("static", name).read_bytes()
