"""What a user requests for a partitioned index: an algorithm by its name, or a plan file."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tidings.balance.requirements import check_installed
from tidings.balance.salb_work_aware import fit_texts
from tidings.balance.spatial_fit import PostSample, spatial_fitter
from tidings.balance.spatial_registry import SPATIAL_PARTITIONERS
from tidings.balance.word_registry import WORD_PARTITIONERS
from tidings.errors import InputError
from tidings.plan.load import read_plan
from tidings.plan.placement.placer import check_placement
from tidings.plan.space import SpatialPlan
from tidings.plan.words import HashPlan, LearnedPlan, WordPlan, check_matcher_count
from tidings.query.conjunctions import Conjunctions

PlanFitter = Callable[[Sequence[bytes], Conjunctions], WordPlan | SpatialPlan]
SampleSource = Callable[[], PostSample]
QUICK_SAMPLE_POSTS = 100_000  # that a plan is learned from if there is no plan file


@dataclass(frozen=True, slots=True)
class PlanSpec:
    """A valid partitioner and placement, and the number of matchers."""

    partitioner: str
    matchers: int
    placement: str
    plan: LearnedPlan | SpatialPlan | None = None  # if the partitioner is a file
    plan_checksum: str = ""  # of that file

    @classmethod
    def parse(cls, partitioner: str, matchers: int | None, placement: str, cores: int = 1) -> PlanSpec:
        """Check the options. `matchers` defaults to that of the plan file, or to one matcher per core.

        Raises InputError for an unknown partitioner or placement, a wrong number of matchers or a missing package.
        """
        placement = check_placement(placement)
        names = (*WORD_PARTITIONERS, *SPATIAL_PARTITIONERS)
        if partitioner in names:
            check_installed(partitioner)
            return cls(partitioner, check_matcher_count(matchers if matchers is not None else cores), placement)
        path = Path(partitioner)
        if not path.exists():
            raise InputError(
                f"partitioner {partitioner!r}: neither an algorithm nor a plan file. Choose one of: {', '.join(names)}."
            )
        plan = read_plan(path)
        if matchers not in (None, plan.matchers):
            raise InputError(f"{partitioner}: the plan is for {plan.matchers} matchers, not for {matchers}.")
        return cls(plan.algorithm, plan.matchers, placement, plan, f"{zlib.crc32(path.read_bytes()):08x}")

    @property
    def is_spatial(self) -> bool:
        """Return whether the plan depends on positions too, not only on terms."""
        return self.partitioner in SPATIAL_PARTITIONERS

    @property
    def must_fit(self) -> bool:
        """Return whether a plan needs a sample of the posts. For `hash` it is optional: hot terms get splits then."""
        return self.plan is None and self.partitioner != "hash"

    def fitter(self, sample: SampleSource, is_drawn: bool = False) -> PlanFitter:
        """Return a function from the subscriptions to the plan. It calls `sample` only if it has to learn.

        With `is_drawn` the sample costs nothing, and `hash` uses it too.
        """

        def fit(terms: Sequence[bytes], conjunctions: Conjunctions) -> WordPlan | SpatialPlan:
            if self.plan is not None:
                return self.plan
            if not self.must_fit and not is_drawn:
                return HashPlan(self.matchers)
            return self.refit(sample)(terms, conjunctions)

        return fit

    def refit(self, sample: SampleSource) -> PlanFitter:
        """Return a function that always learns a new plan, even if there is a plan file."""
        if self.is_spatial:
            return spatial_fitter(self.partitioner, self.matchers, sample)

        def fit(terms: Sequence[bytes], conjunctions: Conjunctions) -> WordPlan:
            return fit_texts(self.partitioner, sample()[0], terms, conjunctions, self.matchers)

        return fit
