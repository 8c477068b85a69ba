"""The load of a worker (PS²Stream, definition 1): what its posts and its subscriptions' coming and going cost."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from tidings.errors import InputError

OBJECTS_AN_UPDATE = 5  # posts for each insertion or deletion of a subscription


@dataclass(frozen=True, slots=True)
class LoadModel:
    """Nanoseconds: of holding a post against a subscription, of a post, of an insertion, of a deletion.

    The defaults are what `lab/calibrate.py` measured on this class of machine; a plan keeps those it was made with.
    """

    check_ns: float = 0.014
    post_ns: float = 300.0
    insert_ns: float = 1_280.0
    delete_ns: float = 225.0
    turnover: float = 0.1  # the share of subscriptions that go, and come, while the posts are matched

    @classmethod
    def paced(cls, posts: int, subscriptions: int) -> LoadModel:
        """The default, with as many insertions and deletions as the paper has: together a fifth of the posts."""
        return cls(turnover=min(1.0, posts / (2 * OBJECTS_AN_UPDATE * max(1, subscriptions))))

    def load(self, posts: float, subscriptions: float) -> float:
        """L = c1·|O|·|Q| + c2·|O| + c3·|Qi| + c4·|Qd|."""
        update = self.turnover * (self.insert_ns + self.delete_ns)
        return self.check_ns * posts * subscriptions + self.post_ns * posts + update * subscriptions

    def to_dict(self) -> dict[str, float]:
        return asdict(self)

    @classmethod
    def from_dict(cls, found: dict[str, Any]) -> LoadModel:
        try:
            return cls(**{name: float(number) for name, number in found.items()})
        except (TypeError, ValueError) as error:
            raise InputError("These are not the constants of a load model; make the plan again.") from error
