"""The web page: static files of this package."""

from __future__ import annotations

from functools import cache
from importlib import resources

from fastapi import APIRouter
from fastapi.responses import Response

from tidings.web.errors import not_found_error

_FOLDER = resources.files("tidings.web").joinpath("static")
_MEDIA_TYPES = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}

router = APIRouter(include_in_schema=False)


@router.api_route("/", methods=["GET", "HEAD"])
async def get_page() -> Response:
    return _file_response("index.html")


@router.api_route("/static/{name}", methods=["GET", "HEAD"])
async def get_file(name: str) -> Response:
    if name not in _file_names():
        raise not_found_error("file")
    return _file_response(name)


def _file_response(name: str) -> Response:
    media_type = _MEDIA_TYPES[name.rpartition(".")[2]]
    return Response(_read_file(name), media_type=media_type, headers={"Cache-Control": "no-cache"})


@cache
def _file_names() -> frozenset[str]:
    """Return the files that are served: a request never becomes a path."""
    return frozenset(file.name for file in _FOLDER.iterdir() if file.name.rpartition(".")[2] in _MEDIA_TYPES)


@cache
def _read_file(name: str) -> bytes:
    return _FOLDER.joinpath(name).read_bytes()
