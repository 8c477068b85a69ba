"""The route to publish posts. A response is sent when the posts are durable, which they are in the stream's inbox."""

from __future__ import annotations

import hashlib
import json
import uuid
from contextlib import suppress
from typing import Annotated, Any

from fastapi import APIRouter, Body

from tidings.errors import InputError, StoreError
from tidings.ingest.inbox import write_posts
from tidings.ingest.validation import missing_field, post_reject_reason, stored_id_reject_reason
from tidings.text.sanitize import clean_link, clean_text
from tidings.web import schemas
from tidings.web.context import Context, Owner
from tidings.web.errors import error_responses
from tidings.web.schemas import NewPost

_MAX_POSTS_PER_REQUEST = 1_000
_HASH_CHARACTERS = 32
_TEXTS = ("text", "title", "author", "time", "lang")

router = APIRouter(prefix="/api", tags=["posts"], responses=error_responses(401))
_PostList = Annotated[list[NewPost], Body(min_length=1, max_length=_MAX_POSTS_PER_REQUEST)]


@router.post("/posts", status_code=202, responses=error_responses(413, 422, 429))
def publish_posts(posts: NewPost | _PostList, owner: Owner, context: Context) -> schemas.PublishedPosts:
    """Publish one post, or a list of up to 1,000. Subscriptions of all owners see every post."""
    if isinstance(posts, list):
        cleaned = [_clean_row(post, owner, f" (row {row})") for row, post in enumerate(posts, 1)]
    else:
        cleaned = [_clean_row(posts, owner, "")]
    context.write_store.accounts.count_posts(owner, len(cleaned))
    try:
        write_posts(context.inbox, f"api-{uuid.uuid4().hex}", cleaned)
    except OSError:
        with suppress(StoreError):
            context.write_store.accounts.uncount_posts(owner, len(cleaned))
        raise
    return schemas.PublishedPosts(accepted=len(cleaned), ids=[post["id"] for post in cleaned])


def _clean_row(post: NewPost, owner: str, row: str) -> dict[str, Any]:
    """Return a post as it is stored: valid text, only web links, and an id that no other owner can use."""
    cleaned = post.model_dump(exclude_none=True, exclude={"id", "tags", "link"})
    cleaned |= {name: clean_text(cleaned[name]) for name in _TEXTS if name in cleaned}
    if post.link is not None and (link := clean_link(post.link)) is not None:
        cleaned["link"] = link
    if tags := [tag for tag in map(clean_text, post.tags) if tag.strip()]:
        cleaned["tags"] = tags
    identity = f"api:{owner}:{_identify(post, cleaned)}"
    cleaned = {"id": identity, **cleaned}
    reason = post_reject_reason(cleaned) if cleaned["text"].strip() else missing_field("text")
    if reason := reason or stored_id_reject_reason(identity):
        raise InputError(f"{reason[0].upper()}{reason[1:]}{row}.")
    return cleaned


def _identify(post: NewPost, cleaned: dict[str, Any]) -> str:
    """Return the id of a post, or a hash of its content."""
    if post.id is not None:
        return clean_text(str(post.id))
    content = json.dumps(cleaned, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(content.encode()).hexdigest()[:_HASH_CHARACTERS]
