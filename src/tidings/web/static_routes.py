"""The front page: some files of the package, and nothing from elsewhere."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Literal

from fastapi import APIRouter
from fastapi.responses import Response

_MEDIA_TYPES = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}

router = APIRouter(include_in_schema=False)


@router.api_route("/", methods=["GET", "HEAD"])
async def front() -> Response:
    return _file("index.html")


@router.api_route("/static/{name}", methods=["GET", "HEAD"])
async def part(name: Literal["page.js", "page.css", "icon.svg"]) -> Response:
    return _file(name)


def _file(name: str) -> Response:
    media_type = _MEDIA_TYPES[name.rpartition(".")[2]]
    return Response(_read(name), media_type=media_type, headers={"Cache-Control": "no-cache"})


@cache
def _read(name: str) -> bytes:
    return resources.files("tidings.web").joinpath("static", name).read_bytes()
