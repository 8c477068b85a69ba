"""`tidings provision --calibrate`: every cost of the provisioner, measured on this code, on this machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of everything is measured with."""

    articles: int = 50_000
    queries: tuple[int, int] = (5_000, 50_000)
    routed: int = 50_000
    matchers: tuple[int, ...] = (4, 16, 64)
    stored: int = 5_000
    batches: int = 4
    spark: bool = True


QUICK = Sizes(2_000, (200, 2_000), 1_000, (4, 16), 200, 2, spark=False)
