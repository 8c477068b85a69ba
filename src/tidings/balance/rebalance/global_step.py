"""Global adjustment from beginning to end: a plan learned from recent posts, beside the one in use, if it pays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tidings.balance.rebalance.global_policy import OverallSettings, OverallState, TakeOver, after_look
from tidings.balance.spatial_fit import Located, workload_of
from tidings.balance.work_model import Sample, WorkModel
from tidings.index.builder import Learn, Prepared, prepare_beside, subscribed_now
from tidings.index.reader import Index
from tidings.index.spatial_shards import space_plan
from tidings.plan.space import SpacePlan


@dataclass(frozen=True, slots=True)
class Looked:
    """What a look at a new plan found: the load of the busiest worker by both; a version, if the new one pays."""

    load: float
    new_load: float
    prepared: Prepared | None

    def __str__(self) -> str:
        return f"a plan learned from recent posts has {self.new_load / max(self.load, 1e-9):.0%} of the busiest load"


def look(
    index: Index, learn: Learn, recent: Located, state: OverallState, now: float, settings: OverallSettings
) -> Looked:
    """The slowest decides how many posts all can take, so what the busiest workers have to do is compared."""
    assert index.manifest.plan is not None
    subscribed, terms = subscribed_now(index), index.vocabulary.terms()
    if subscribed is None:
        return Looked(0.0, 0.0, None)
    sample = Sample.of(workload_of(terms, subscribed, recent))
    old, new = space_plan(index.folder / index.manifest.plan.space), learn(terms, subscribed)
    assert isinstance(new, SpacePlan)
    load, new_load = (float(np.max(sample.work(plan, WorkModel()))) for plan in (old, new))
    _, step = after_look(state, now, load, new_load, index.manifest.subscriptions, settings)
    return Looked(load, new_load, prepare_beside(index, new) if isinstance(step, TakeOver) else None)


def shares(index: Index) -> tuple[int, int]:
    """How many living subscriptions lie by the plan before and how many by this one; each as often as it lies."""
    records = [record for shard in index.manifest.shards for record in shard]
    old = sum(record.subscriptions - record.gone for record in records if record.is_old)
    return old, sum(record.subscriptions - record.gone for record in records) - old


def old_bytes(index: Index) -> int:
    """What the living subscriptions that lie by the plan before take, by their share of their segments."""
    records = [one for shard in index.manifest.shards for one in shard if one.is_old and one.subscriptions]
    living = {one.folder: 1 - one.gone / one.subscriptions for one in records}
    sizes = ((name.split("/")[0], record.size_bytes) for name, record in index.manifest.files.items())
    return round(sum(size * living.get(folder, 0.0) for folder, size in sizes))
