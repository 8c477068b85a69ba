"""The ASGI application: all routes, error handling, compression and limits."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, FastAPI
from pydantic.json_schema import models_json_schema
from starlette.types import ASGIApp

from tidings.version import __version__
from tidings.web import feeds, live, live_changes, opml, posts, schemas, static_routes, subscriptions, webhooks
from tidings.web.compression import GzipMiddleware
from tidings.web.context import AppContext, Context, OwnerInTurn
from tidings.web.errors import add_error_handlers, error_responses
from tidings.web.feed_routes import describe_feed_routes, feed_routes
from tidings.web.request_body import REFERENCE
from tidings.web.response_headers import ResponseHeaders
from tidings.web.webhook_schemas import NewWebhook

_DESCRIPTION = """Standing queries over a stream of posts. Subscribe, publish posts, follow feeds; read matches as
pages, as a feed or live. Requests to `/api` need a token (`Authorization: Bearer TOKEN`); `/read` needs only the secret
URL.

Resources of other owners return 404, as if they did not exist."""
_MODULES = (subscriptions, posts, feeds, opml, webhooks, live, live_changes, static_routes)

_BODY_MODELS = (schemas.QueryIn, schemas.NewPost, schemas.NewFeed, NewWebhook)

_account_router = APIRouter(prefix="/api", tags=["owner"], responses=error_responses(401, 429))


@_account_router.get("/me")
def get_account(owner: OwnerInTurn, context: Context) -> schemas.AccountOut:
    """Return your name, your usage and your quotas."""
    feed_count = sum(1 for _ in context.read_store.feeds.all(owner))
    return schemas.AccountOut.of(context.read_store.accounts.get(owner), feed_count)


@_account_router.get("/status")
def get_status(owner: OwnerInTurn, context: Context) -> schemas.StatusOut:
    """Return what the service does. Without a running stream no new matches are found."""
    return schemas.StatusOut(stream=context.read_phase())


def build_application(context: AppContext) -> ASGIApp:
    """Return the application with its middleware; the caller runs `context.notifier`."""
    return ResponseHeaders(GzipMiddleware(build_api(context)))


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


def _describe_models() -> dict[str, Any]:
    """Return the schemas of request bodies, which routes read as dependencies."""
    _, description = models_json_schema([(model, "validation") for model in _BODY_MODELS], ref_template=REFERENCE)
    definitions: dict[str, Any] = description["$defs"]
    return definitions


class _App(FastAPI):
    """FastAPI with the description of the feeds, which are plain routes, and of request bodies."""

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            description = super().openapi()
            description["paths"].update(describe_feed_routes())
            description["components"]["schemas"] |= _describe_models()
        assert self.openapi_schema is not None
        return self.openapi_schema
