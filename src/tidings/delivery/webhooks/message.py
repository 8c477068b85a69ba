"""Build and sign webhook messages (Standard Webhooks): the next matches of a subscription."""

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
"""Limits of one message. A larger match is sent alone."""
_MATCHED, _TEST = "subscription.matched", "webhook.test"
_INTERNAL = ("batch", "index_version")
_FIELDS = tuple(field.name for field in fields(StoredMatch) if field.name not in _INTERNAL)


@dataclass(frozen=True, slots=True)
class Message:
    """A message, the same in every attempt. ``until`` is the cursor of its last match."""

    id: str
    body: bytes
    matches: int
    until: int


def build_message(name: str, subscription: int, matches: Sequence[StoredMatch], is_fixed: bool = False) -> Message:
    """Return the message with these matches; if it is not fixed, with the first ones that fit into one message.

    The same matches give the same message.
    """
    encoded: list[bytes] = []
    size = 0
    for match in matches:
        encoded.append(_to_json(_to_dict(match)))
        size += len(encoded[-1])
        if not is_fixed and len(encoded) > 1 and (size > MAX_BYTES or len(encoded) > MAX_MATCHES):
            encoded.pop()
            break
    last = matches[len(encoded) - 1]
    head = _to_json({"subscription": subscription, "cursor": last.cursor})[:-1]
    data = head + b',"matches":[' + b",".join(encoded) + b"]}"
    body = _build_body(_MATCHED, last.arrived_at, data)
    return Message(f"msg_{name}_{last.cursor}", body, len(encoded), last.cursor)


def build_test_message(name: str, subscription: int, at: float) -> Message:
    """Return a message without matches that tests a receiver."""
    body = _build_body(_TEST, at, _to_json({"subscription": subscription}))
    return Message(f"msg_{name}_test_{int(at * 1000)}", body, 0, 0)


def sign_headers(message: Message, secrets: Sequence[str], at: float) -> dict[str, str]:
    """Return the headers that prove sender and time, with one signature per valid secret."""
    now = datetime.fromtimestamp(int(at), UTC)
    signatures = (Signer(secret).sign(message.id, now, message.body.decode()) for secret in secrets)
    return {
        "content-type": "application/json",
        "webhook-id": message.id,
        "webhook-timestamp": str(int(at)),
        "webhook-signature": " ".join(signatures),
    }


def _build_body(kind: str, at: float, data: bytes) -> bytes:
    return _to_json({"type": kind, "timestamp": _format_time(at)})[:-1] + b',"data":' + data + b"}"


def _to_dict(match: StoredMatch) -> dict[str, Any]:
    values = {name: getattr(match, name) for name in _FIELDS}
    position = {"lat": _finite_or_none(match.lat), "lon": _finite_or_none(match.lon)}
    return {**values, **position, "arrived_at": _format_time(match.arrived_at)}


def _finite_or_none(degrees: float | None) -> float | None:
    """JSON has no other numbers."""
    return degrees if degrees is not None and math.isfinite(degrees) else None


def _format_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def _to_json(value: object) -> bytes:
    """Return JSON on one line. Lone surrogates are replaced because UTF-8 cannot encode them."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode("utf-8", "replace")
