"""What a webhook is sent: the next few matches of its subscription, signed as Standard Webhooks specifies."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from standardwebhooks import Webhook as Signer

from tidings.store.records import StoredMatch

MAX_MATCHES, MAX_BYTES = 100, 65_536
"""Of one message. A match that is larger by itself goes alone."""
_MATCHED, _TEST = "subscription.matched", "webhook.test"
_UNTOLD = ("batch", "index_version")  # how we found it is no business of who wants to know what


@dataclass(frozen=True, slots=True)
class Message:
    """A message as it goes out each time it is tried. ``until`` is the cursor of its last match."""

    id: str
    body: bytes
    matches: int
    until: int


def message(name: str, subscription: int, matches: Sequence[StoredMatch]) -> Message:
    """The message with these matches; made again of the same ones, it is the same."""
    last = matches[-1]
    told = {"subscription": subscription, "cursor": last.cursor, "matches": [_told(match) for match in matches]}
    return Message(f"msg_{name}_{last.cursor}", _body(_MATCHED, last.arrived_at, told), len(matches), last.cursor)


def trial(name: str, subscription: int, at: float) -> Message:
    """A message that says nothing, to try whether it arrives."""
    return Message(f"msg_{name}_test_{int(at * 1000)}", _body(_TEST, at, {"subscription": subscription}), 0, 0)


def bounded(matches: Iterable[StoredMatch]) -> list[StoredMatch]:
    """The first of them, as many as go into one message."""
    chosen: list[StoredMatch] = []
    size = 0
    for match in matches:
        size += len(_json(_told(match)))
        if chosen and (size > MAX_BYTES or len(chosen) == MAX_MATCHES):
            break
        chosen.append(match)
    return chosen


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


def _body(kind: str, at: float, data: dict[str, Any]) -> bytes:
    return _json({"type": kind, "timestamp": _moment(at), "data": data})


def _told(match: StoredMatch) -> dict[str, Any]:
    told = {name: value for name, value in asdict(match).items() if name not in _UNTOLD}
    return {**told, "lat": _finite(match.lat), "lon": _finite(match.lon), "arrived_at": _moment(match.arrived_at)}


def _finite(degrees: float | None) -> float | None:
    """JSON knows no other numbers."""
    return degrees if degrees is not None and math.isfinite(degrees) else None


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def _json(value: object) -> bytes:
    """JSON on one line. Half a surrogate pair cannot be sent, and nobody can read it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode("utf-8", "replace")
