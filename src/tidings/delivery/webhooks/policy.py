"""Decide what follows from an attempt: the message is delivered, retried, or the webhook is disabled.

Pure functions: the caller passes time and randomness. The delays are those of the Standard Webhooks specification; a
receiver that is down for three days misses nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus

DELAYS_S = (5.0, 300.0, 1_800.0, 7_200.0, 18_000.0, 36_000.0, 50_400.0, 72_000.0, 86_400.0)
"""After the first failure, the second, and so on: ten attempts in three days and four hours."""
JITTER = 0.1
"""Maximum relative increase of a delay, so that webhooks that failed together do not retry together."""
MAX_DELAY_S = 86_400.0
"""Upper limit for `Retry-After`."""


@dataclass(frozen=True, slots=True)
class DeliveryOutcome:
    """The result of an attempt: the HTTP status, or None and the reason why no server answered."""

    status: int | None
    reason: str = ""
    retry_after_s: float | None = None

    @property
    def is_delivered(self) -> bool:
        return self.status is not None and 200 <= self.status < 300

    @property
    def text(self) -> str:
        """The outcome for the log of attempts."""
        if self.status is None:
            return self.reason
        if 300 <= self.status < 400:
            return f"answered {format_status(self.status)}: redirects are not followed, use the target URL"
        return f"answered {format_status(self.status)}"


@dataclass(frozen=True, slots=True)
class Decision:
    """The next state of a webhook. ``due_at`` is the time of the next attempt; None after success or giving up."""

    delivered: bool
    failures: int
    due_at: float | None
    error: str


def decide(failures: int, outcome: DeliveryOutcome, now: float, random: float) -> Decision:
    """Return what follows from an outcome after earlier `failures` of the same message; `random` is in 0…1."""
    if outcome.is_delivered:
        return Decision(True, 0, None, "")
    failed = failures + 1
    if outcome.status == HTTPStatus.GONE:
        return Decision(False, failed, None, f"{outcome.text}: the receiver does not accept messages any more")
    if failed > len(DELAYS_S):
        return Decision(False, failed, None, f"{failed} attempts failed, the last: {outcome.text}")
    delay = DELAYS_S[failed - 1] * (1 + JITTER * random)
    requested = min(outcome.retry_after_s or 0.0, MAX_DELAY_S)
    return Decision(False, failed, now + max(delay, requested), outcome.text)


def format_status(status: int) -> str:
    """Return a status with its phrase: `404 Not Found`."""
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)
