"""The load of a matcher (PS²Stream, definition 1): the cost of its posts and of changes to its subscriptions."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from tidings.errors import InputError

POSTS_PER_UPDATE = 5  # posts per insertion or deletion of a subscription


@dataclass(frozen=True, slots=True)
class LoadModel:
    """Nanoseconds per (post, subscription) check, per post, per insertion and per deletion.

    The defaults were measured by the lab on this class of machine; a plan stores those it was learned with.
    """

    check_ns: float = 0.014
    post_ns: float = 300.0
    insert_ns: float = 1_280.0
    delete_ns: float = 225.0
    turnover: float = 0.1  # fraction of subscriptions that are deleted, and inserted, while the posts are matched

    @classmethod
    def with_update_rate(cls, posts: int, subscriptions: int) -> LoadModel:
        """Return the defaults with the update rate of the paper: one insertion or deletion per five posts."""
        return cls(turnover=min(1.0, posts / (2 * POSTS_PER_UPDATE * max(1, subscriptions))))

    def load(self, posts: float, subscriptions: float) -> float:
        """Return L = c1·|O|·|Q| + c2·|O| + c3·|Qi| + c4·|Qd|, in nanoseconds."""
        update = self.turnover * (self.insert_ns + self.delete_ns)
        return self.check_ns * posts * subscriptions + self.post_ns * posts + update * subscriptions

    def to_dict(self) -> dict[str, float]:
        return asdict(self)

    @classmethod
    def from_dict(cls, constants: dict[str, Any]) -> LoadModel:
        """Return the model; InputError if these are not its constants."""
        try:
            return cls(**{name: float(number) for name, number in constants.items()})
        except (TypeError, ValueError) as error:
            raise InputError(
                "load model: invalid constants. Create the plan again with `tidings plan learn`."
            ) from error
