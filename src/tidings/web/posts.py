"""The route to publish posts. A response is sent when the posts are durable, which they are in the stream's inbox."""

from __future__ import annotations

import hashlib
import json
import uuid
from contextlib import suppress
from typing import Annotated, Any

from fastapi import APIRouter

from tidings.delivery.feeds.model import parse_post_time
from tidings.errors import InputError, StoreError
from tidings.ingest.inbox import write_posts
from tidings.ingest.validation import missing_field, post_reject_reason
from tidings.text.sanitize import clean_link, clean_text
from tidings.web import schemas
from tidings.web.context import Context, OwnerInTurn
from tidings.web.errors import error_responses
from tidings.web.json_rows import is_list, parse_list, parse_object
from tidings.web.request_body import REFERENCE, describe_json, large_body
from tidings.web.schemas import NewPost

_MAX_POSTS_PER_REQUEST = 1_000
_HASH_CHARACTERS = 32
_TEXTS = ("text", "title", "author", "time", "lang")

router = APIRouter(prefix="/api", tags=["posts"], responses=error_responses(401, 429))
_POST_SCHEMA = {"$ref": REFERENCE.format(model=NewPost.__name__)}
_LIST_SCHEMA = {"type": "array", "items": _POST_SCHEMA, "minItems": 1, "maxItems": _MAX_POSTS_PER_REQUEST}


def _parse_posts(document: bytes) -> NewPost | list[NewPost]:
    if not is_list(document):
        return parse_object(document, NewPost)
    posts = parse_list(document, NewPost, _MAX_POSTS_PER_REQUEST)
    if not posts:
        raise InputError("The list is empty: row 1 with the field text is missing.")
    return posts


@router.post(
    "/posts",
    status_code=202,
    openapi_extra=describe_json({"anyOf": [_POST_SCHEMA, _LIST_SCHEMA]}),
    responses=error_responses(413, 422, 429, 503),
)
def publish_posts(
    posts: Annotated[NewPost | list[NewPost], large_body(_parse_posts)], owner: OwnerInTurn, context: Context
) -> schemas.PublishedPosts:
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
    cleaned = {"id": f"api:{owner}:{_identify(post, cleaned)}", **cleaned}
    reason = post_reject_reason(cleaned) if cleaned["text"].strip() else missing_field("text")
    if reason := reason or _time_reject_reason(cleaned.get("time")):
        raise InputError(f"{reason[0].upper()}{reason[1:]}{row}.")
    return cleaned


def _time_reject_reason(time: str | None) -> str | None:
    """Return why a time is rejected: readers, windows and feeds would not know when the post was written."""
    is_readable = not time or parse_post_time(time) is not None
    return None if is_readable else "the time cannot be read; write it as 2026-03-12T18:00:00Z"


def _identify(post: NewPost, cleaned: dict[str, Any]) -> str:
    """Return the id of a post, or a hash of its content."""
    if post.id is not None:
        return clean_text(str(post.id))
    content = json.dumps(cleaned, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(content.encode()).hexdigest()[:_HASH_CHARACTERS]
