"""What a user asks for when the index is to be shared out: an algorithm by its name, or a plan by its file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from tidings.errors import InputError
from tidings.partition.space.learn import SPACE_PARTITIONERS
from tidings.partition.words.corpus import Corpus
from tidings.partition.words.learn import LEARNED, PARTITIONERS, fit
from tidings.partition.words.plan import HashPlan, LearnedPlan, WordPlan, checked_matchers, load_plan
from tidings.place.placer import placer
from tidings.receive.vocabulary import Vocabulary

QUICK_SAMPLE = 100_000  # posts that a plan is learned from when nobody made one before


@dataclass(frozen=True, slots=True)
class WantedPlan:
    """A partitioner and a placement that exist, and how many matchers."""

    partitioner: str
    matchers: int
    placement: str
    learned: LearnedPlan | None = None  # when the partitioner is a file

    @classmethod
    def checked(cls, partitioner: str, matchers: int | None, placement: str, cores: int = 1) -> WantedPlan:
        """InputError when there is no such thing. Without a number, the plan's own, or one matcher a core."""
        placer(placement)
        if partitioner in (*PARTITIONERS, *SPACE_PARTITIONERS):
            return cls(partitioner, checked_matchers(matchers if matchers is not None else cores), placement)
        if not Path(partitioner).exists():
            known = ", ".join((*PARTITIONERS, *SPACE_PARTITIONERS))
            raise InputError(f"There is no partitioner and no plan called {partitioner!r}; choose one of: {known}.")
        plan = load_plan(Path(partitioner))
        if matchers not in (None, plan.matchers):
            raise InputError(f"{partitioner}: this plan is for {plan.matchers} matchers, not for {matchers}.")
        return cls(plan.algorithm, plan.matchers, placement, plan)

    @property
    def must_learn(self) -> bool:
        return self.learned is None and self.partitioner in LEARNED

    def learn(self, sample: Callable[[], pa.Array]) -> Callable[[Sequence[bytes]], WordPlan]:
        """From the subscribed words to the plan; `sample` gives texts of posts, and is asked only if need be."""
        if self.learned is not None:
            ready = self.learned
            return lambda terms: ready
        if not self.must_learn:
            return lambda terms: HashPlan(self.matchers)
        return lambda terms: fit(self.partitioner, Corpus.of_texts(sample(), Vocabulary.build(terms)), self.matchers)
