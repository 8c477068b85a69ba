"""Publishing posts: acknowledged when they are durable, which is when they lie in the stream's inbox."""

from __future__ import annotations

import hashlib
import json
import uuid
from contextlib import suppress
from typing import Annotated, Any

from fastapi import APIRouter, Body

from tidings.config import MAX_TEXT_BYTES
from tidings.errors import InputError, StoreError
from tidings.ingest.inbox import put
from tidings.store.columns import MAX_ID_BYTES
from tidings.text.sanitize import clean_link, clean_text
from tidings.web import schemas
from tidings.web.context import Here, Owner
from tidings.web.errors import documented
from tidings.web.schemas import NewPost

_AT_ONCE = 1_000
_IDENTITY_CHARACTERS = 32
_TEXTS = ("text", "title", "author", "time", "lang")

router = APIRouter(prefix="/api", tags=["posts"], responses=documented(401))
_Many = Annotated[list[NewPost], Body(min_length=1, max_length=_AT_ONCE)]


@router.post("/posts", status_code=202, responses=documented(413, 422, 429))
def publish(posts: NewPost | _Many, owner: Owner, here: Here) -> schemas.Published:
    """Publish one post, or a list of up to a thousand. Every subscription, whoever has it, sees every post."""
    given = [_cleaned(post, owner) for post in (posts if isinstance(posts, list) else [posts])]
    here.writing.accounts.publish(owner, len(given))
    try:
        put(here.inbox, f"api-{uuid.uuid4().hex}", given)
    except OSError:
        with suppress(StoreError):
            here.writing.accounts.take_back(owner, len(given))
        raise
    return schemas.Published(accepted=len(given), ids=[post["id"] for post in given])


def _cleaned(post: NewPost, owner: str) -> dict[str, Any]:
    """As it is stored: text without what is no text, links to the web only, an id no other owner can take."""
    cleaned = post.model_dump(exclude_none=True, exclude={"id", "tags", "link"})
    cleaned |= {name: clean_text(cleaned[name]) for name in _TEXTS if name in cleaned}
    if not cleaned["text"].strip():
        raise InputError("text: there is none, so nothing can match; give the post a text.")
    if len(cleaned["text"].encode()) > MAX_TEXT_BYTES:
        raise InputError(f"text: it has more than {MAX_TEXT_BYTES:,} bytes, and the stream takes no more; shorten it.")
    if post.link is not None and (link := clean_link(post.link)) is not None:
        cleaned["link"] = link
    if tags := [tag for tag in map(clean_text, post.tags) if tag.strip()]:
        cleaned["tags"] = tags
    identity = f"api:{owner}:{_identity(post, cleaned)}"
    if len(identity.encode()) > MAX_ID_BYTES:
        raise InputError(f"id: {identity[:40]}… has more than {MAX_ID_BYTES:,} bytes; shorten it.")
    return {"id": identity, **cleaned}


def _identity(post: NewPost, cleaned: dict[str, Any]) -> str:
    if post.id is not None:
        return clean_text(str(post.id))
    said = json.dumps(cleaned, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(said.encode()).hexdigest()[:_IDENTITY_CHARACTERS]
