"""The ASGI application: all routes, error handling, compression and limits."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, FastAPI
from starlette.types import ASGIApp

from tidings.version import __version__
from tidings.web import feeds, live, opml, posts, schemas, static_routes, subscriptions, webhooks
from tidings.web.compression import GzipMiddleware
from tidings.web.context import AppContext, Context, Owner
from tidings.web.errors import add_error_handlers, error_responses
from tidings.web.feed_routes import describe_feed_routes, feed_routes
from tidings.web.limits_middleware import LimitsMiddleware

_DESCRIPTION = """Standing queries over a stream of posts. Subscribe, publish posts, follow feeds; read matches as
pages, as a feed or live. Requests to `/api` need a token (`Authorization: Bearer TOKEN`); `/read` needs only the secret
URL.

Resources of other owners return 404, as if they did not exist."""
_MODULES = (subscriptions, posts, feeds, opml, webhooks, live, static_routes)

_account_router = APIRouter(prefix="/api", tags=["owner"], responses=error_responses(401))


@_account_router.get("/me")
def get_account(owner: Owner, context: Context) -> schemas.AccountOut:
    """Return your name, your usage and your quotas."""
    feed_count = sum(1 for _ in context.read_store.feeds.all(owner))
    return schemas.AccountOut.of(context.read_store.accounts.get(owner), feed_count)


def build_application(context: AppContext) -> ASGIApp:
    """Return the application with its middleware; the caller runs `context.notifier`."""
    return LimitsMiddleware(GzipMiddleware(build_api(context)))


def build_api(context: AppContext) -> FastAPI:
    """Return the application without middleware; it has the OpenAPI description."""
    app = _App(title="Tidings", version=__version__, description=_DESCRIPTION, docs_url=None, redoc_url=None)
    app.state.context = context
    app.router.routes[:0] = feed_routes()  # polled most, so matched first
    for module in _MODULES:
        app.include_router(module.router)
    app.include_router(_account_router)
    add_error_handlers(app)
    return app


class _App(FastAPI):
    """FastAPI with the description of the feeds, which are plain routes."""

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            super().openapi()["paths"].update(describe_feed_routes())
        assert self.openapi_schema is not None
        return self.openapi_schema
