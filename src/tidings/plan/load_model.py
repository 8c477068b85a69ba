"""The load of a matcher: the time for its posts and for changes to its subscriptions.

PS²Stream's definition 1 multiplies posts and subscriptions. A matcher with an index compares only few of these pairs,
so `WorkModel` counts what it really does. All spatial partitioners use it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tidings.errors import InputError

Amount = TypeVar("Amount", float, NDArray[np.float64])
POSTS_PER_UPDATE = 5  # posts per insertion or deletion of a subscription


@dataclass(frozen=True, slots=True)
class WorkModel:
    """Costs in nanoseconds. `tidings_lab.calibrate_work_model` measured the defaults (`lab/results`)."""

    post_ns: float = 42.0  # per post received
    term_ns: float = 46.0  # per term looked up
    hit_ns: float = 10.7  # per conjunction found
    update_ns: float = 885.0  # per insertion and deletion

    def load(self, posts: Amount, lookups: Amount, hits: Amount, updates: Amount) -> Amount:
        """Return the time in nanoseconds of these operations, of one matcher or of several."""
        return self.post_ns * posts + self.term_ns * lookups + self.hit_ns * hits + self.update_ns * updates

    def to_dict(self) -> dict[str, float]:
        return asdict(self)

    @classmethod
    def from_dict(cls, constants: dict[str, Any]) -> WorkModel:
        """Return the model; InputError if these are not its constants."""
        try:
            return cls(**{name: float(number) for name, number in constants.items()})
        except (TypeError, ValueError) as error:
            raise InputError(
                "work model: invalid constants. Create the plan again with `tidings plan learn`."
            ) from error


@dataclass(frozen=True, slots=True)
class LoadModel:
    """Nanoseconds per (post, subscription) check, per post, per insertion and per deletion.

    The defaults were measured by the lab on this class of machine; a plan stores those it was learned with.
    """

    check_ns: float = 0.0016
    post_ns: float = 256.0
    insert_ns: float = 648.0
    delete_ns: float = 237.0
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
