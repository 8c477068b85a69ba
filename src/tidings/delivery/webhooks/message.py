"""What a webhook is sent: the next few matches of its subscription, signed as Standard Webhooks specifies."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any

from standardwebhooks import Webhook as Signer

from tidings.store.rows import StoredMatch

MAX_MATCHES, MAX_BYTES = 100, 65_536
"""Of one message. A match that is larger by itself goes alone."""
_MATCHED, _TEST = "subscription.matched", "webhook.test"
_UNTOLD = ("batch", "index_version")  # how we found it is no business of who wants to know what
_FIELDS = tuple(field.name for field in fields(StoredMatch) if field.name not in _UNTOLD)


@dataclass(frozen=True, slots=True)
class Message:
    """A message as it goes out each time it is tried. ``until`` is the cursor of its last match."""

    id: str
    body: bytes
    matches: int
    until: int


def message(name: str, subscription: int, matches: Sequence[StoredMatch], is_fixed: bool = False) -> Message:
    """The message with these matches, or (if it is not fixed) with as many as go into one, the first of them.

    Made again of the same matches, it is the same.
    """
    told: list[bytes] = []
    size = 0
    for match in matches:
        told.append(_json(_told(match)))
        size += len(told[-1])
        if not is_fixed and len(told) > 1 and (size > MAX_BYTES or len(told) > MAX_MATCHES):
            told.pop()
            break
    last = matches[len(told) - 1]
    beginning = _json({"subscription": subscription, "cursor": last.cursor})[:-1]
    data = beginning + b',"matches":[' + b",".join(told) + b"]}"
    return Message(f"msg_{name}_{last.cursor}", _body(_MATCHED, last.arrived_at, data), len(told), last.cursor)


def trial(name: str, subscription: int, at: float) -> Message:
    """A message that says nothing, to try whether it arrives."""
    body = _body(_TEST, at, _json({"subscription": subscription}))
    return Message(f"msg_{name}_test_{int(at * 1000)}", body, 0, 0)


def headers(message: Message, secrets: Sequence[str], at: float) -> dict[str, str]:
    """What proves who sends it and when; one signature for each secret that is good at the time."""
    now = datetime.fromtimestamp(int(at), UTC)
    signatures = (Signer(secret).sign(message.id, now, message.body.decode()) for secret in secrets)
    return {
        "content-type": "application/json",
        "webhook-id": message.id,
        "webhook-timestamp": str(int(at)),
        "webhook-signature": " ".join(signatures),
    }


def _body(kind: str, at: float, data: bytes) -> bytes:
    return _json({"type": kind, "timestamp": _moment(at)})[:-1] + b',"data":' + data + b"}"


def _told(match: StoredMatch) -> dict[str, Any]:
    told = {name: getattr(match, name) for name in _FIELDS}
    return {**told, "lat": _finite(match.lat), "lon": _finite(match.lon), "arrived_at": _moment(match.arrived_at)}


def _finite(degrees: float | None) -> float | None:
    """JSON knows no other numbers."""
    return degrees if degrees is not None and math.isfinite(degrees) else None


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def _json(value: object) -> bytes:
    """JSON on one line. Half a surrogate pair cannot be sent, and nobody can read it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode("utf-8", "replace")
