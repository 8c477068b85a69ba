"""The application: all routes, one way to refuse, one edge around it."""

from __future__ import annotations

from fastapi import APIRouter, FastAPI
from starlette.types import ASGIApp

from tidings.version import __version__
from tidings.web import feed_routes, feeds, live, opml, posts, schemas, static_routes, subscriptions, webhooks
from tidings.web.compression import Packed
from tidings.web.context import Here, Owner, Service
from tidings.web.errors import answer_problems, documented
from tidings.web.feed_routes import Straight
from tidings.web.limits_middleware import Edge

_ABOUT = """Standing queries over a firehose of posts. Subscribe, publish, add feeds; read what matches as pages, as a
feed, or live. All of `/api` needs a token (`Authorization: Bearer TOKEN`); `/read` needs none but the secret address.

Whatever is not yours does not exist: another owner's things are answered as those that never were, with 404."""

_me = APIRouter(prefix="/api", tags=["owner"], responses=documented(401))


@_me.get("/me")
def me(owner: Owner, here: Here) -> schemas.Me:
    """Who you are, what you have and what you may have."""
    return schemas.Me.of(here.reading.accounts.account(owner), sum(1 for _ in here.reading.feeds(owner)))


def application(service: Service) -> ASGIApp:
    """The app for a service; who runs it keeps the service's pulse beating."""
    return Edge(Packed(Straight(described(service), service)))


def described(service: Service) -> FastAPI:
    """The app without its edge, which knows its own description."""
    app = FastAPI(title="Tidings", version=__version__, description=_ABOUT, docs_url=None, redoc_url=None)
    app.state.service = service
    rooms = (
        feed_routes,
        subscriptions,
        posts,
        feeds,
        opml,
        webhooks,
        live,
        static_routes,
    )  # what is asked for most is looked at first
    for router in (*(room.router for room in rooms), _me):
        app.include_router(router)
    answer_problems(app)
    return app
