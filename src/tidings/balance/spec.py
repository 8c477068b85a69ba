"""What a user asks for when the index is to be shared out: an algorithm by its name, or a plan by its file."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tidings.balance.salb_work_aware import fit_texts
from tidings.balance.spatial_fit import Located, learn_space
from tidings.balance.spatial_registry import SPACE_PARTITIONERS
from tidings.balance.word_registry import LEARNED, PARTITIONERS
from tidings.errors import InputError
from tidings.plan.load import load_any_plan
from tidings.plan.placement.placer import placer
from tidings.plan.space import SpacePlan
from tidings.plan.words import HashPlan, LearnedPlan, WordPlan, checked_matchers
from tidings.query.conjunctions import Conjunctions

Learn = Callable[[Sequence[bytes], Conjunctions], WordPlan | SpacePlan]
Sample = Callable[[], Located]
QUICK_SAMPLE = 100_000  # posts that a plan is learned from when nobody made one before


@dataclass(frozen=True, slots=True)
class WantedPlan:
    """A partitioner and a placement that exist, and how many matchers."""

    partitioner: str
    matchers: int
    placement: str
    learned: LearnedPlan | SpacePlan | None = None  # when the partitioner is a file
    origin: str = ""  # what tells that file from others

    @classmethod
    def checked(cls, partitioner: str, matchers: int | None, placement: str, cores: int = 1) -> WantedPlan:
        """InputError when there is no such thing. Without a number, the plan's own, or one matcher a core."""
        placer(placement)
        if partitioner in (*PARTITIONERS, *SPACE_PARTITIONERS):
            return cls(partitioner, checked_matchers(matchers if matchers is not None else cores), placement)
        if not Path(partitioner).exists():
            known = ", ".join((*PARTITIONERS, *SPACE_PARTITIONERS))
            raise InputError(f"There is no partitioner and no plan called {partitioner!r}; choose one of: {known}.")
        plan = load_any_plan(Path(partitioner))
        own = plan.workers if isinstance(plan, SpacePlan) else plan.matchers
        if matchers not in (None, own):
            raise InputError(f"{partitioner}: this plan is for {own} matchers, not for {matchers}.")
        origin = f"{zlib.crc32(Path(partitioner).read_bytes()):08x}"
        return cls(plan.algorithm, own, placement, plan, origin)

    @property
    def by_space(self) -> bool:
        """Whether places decide too, not words alone."""
        return self.partitioner in SPACE_PARTITIONERS

    @property
    def learns(self) -> bool:
        """Whether its algorithm learns from posts at all."""
        return self.partitioner in LEARNED or self.by_space

    @property
    def must_learn(self) -> bool:
        return self.learned is None and self.learns

    def learn(self, sample: Sample) -> Learn:
        """From the subscribed words to the plan; `sample` gives posts, and is asked only if need be."""

        def learned(terms: Sequence[bytes], conjunctions: Conjunctions) -> WordPlan | SpacePlan:
            if self.learned is not None:
                return self.learned
            if not self.must_learn:
                return HashPlan(self.matchers)
            return self.learn_anew(sample)(terms, conjunctions)

        return learned

    def learn_anew(self, sample: Sample) -> Learn:
        """The same, whatever was learned before."""
        if self.by_space:
            return learn_space(self.partitioner, self.matchers, sample)

        def learned(terms: Sequence[bytes], conjunctions: Conjunctions) -> WordPlan:
            return fit_texts(self.partitioner, sample()[0], terms, conjunctions, self.matchers)

        return learned
