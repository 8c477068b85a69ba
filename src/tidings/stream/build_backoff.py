"""When to try again after a build of another plan failed."""

from __future__ import annotations

from dataclasses import dataclass

FIRST_PAUSE_S, MAX_PAUSE_S = 60.0, 3_600.0


@dataclass(frozen=True, slots=True)
class BuildBackoff:
    """The failures since the last build that succeeded. The pause doubles with each one, up to an hour."""

    failures: int = 0
    reason: str = ""
    retry_at: float = float("-inf")

    def add_failure(self, error: BaseException, now: float) -> BuildBackoff:
        reason = (str(error).splitlines() or [""])[0][:200] or type(error).__name__
        pause = min(MAX_PAUSE_S, FIRST_PAUSE_S * 2 ** min(self.failures, 10))
        return BuildBackoff(self.failures + 1, reason, now + pause)

    def status(self) -> dict[str, object]:
        """Return metrics; empty without a failure."""
        if not self.failures:
            return {}
        return {"count": self.failures, "reason": self.reason, "retry_at": self.retry_at}
