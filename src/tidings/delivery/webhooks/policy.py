"""What follows from one attempt to deliver a message: it is delivered, it is tried again, or the hook is switched off.

Pure: the clock and the chance are given. The delays are those the Standard Webhooks specification proposes; with them a
receiver that was away for three days has missed nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus

DELAYS_S = (5.0, 300.0, 1_800.0, 7_200.0, 18_000.0, 36_000.0, 50_400.0, 72_000.0, 86_400.0)
"""After the first failure, the second, and so on: ten attempts in three days and four hours."""
JITTER = 0.1
"""So much longer at most, so that hooks that failed together do not come back together."""
LONGEST_S = 86_400.0
"""Nobody is let wait longer than that, whatever `Retry-After` says."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an attempt ended: with the status a server answered, or (None) with the reason why none did."""

    status: int | None
    reason: str = ""
    retry_after_s: float | None = None

    @property
    def is_delivered(self) -> bool:
        return self.status is not None and 200 <= self.status < 300

    @property
    def sentence(self) -> str:
        """For the log of deliveries."""
        if self.status is None:
            return self.reason
        if 300 <= self.status < 400:
            return f"answered {named(self.status)}: redirects are not followed, give the address it leads to"
        return f"answered {named(self.status)}"


@dataclass(frozen=True, slots=True)
class Next:
    """How a hook goes on. ``due_at`` is when the same message is tried again; None if it is delivered or given up."""

    delivered: bool
    failures: int
    due_at: float | None
    error: str


def decide(failures: int, outcome: Outcome, now: float, chance: float) -> Next:
    """What follows when a message that failed so often before has this outcome; `chance` lies in 0…1."""
    if outcome.is_delivered:
        return Next(True, 0, None, "")
    failed = failures + 1
    if outcome.status == HTTPStatus.GONE:
        return Next(False, failed, None, f"{outcome.sentence}: the receiver wants no more")
    if failed > len(DELAYS_S):
        return Next(False, failed, None, f"{failed} attempts failed, the last: {outcome.sentence}")
    delay = DELAYS_S[failed - 1] * (1 + JITTER * chance)
    asked = min(outcome.retry_after_s or 0.0, LONGEST_S)
    return Next(False, failed, now + max(delay, asked), outcome.sentence)


def named(status: int) -> str:
    """The status as it is usually written: `404 Not Found`."""
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)
