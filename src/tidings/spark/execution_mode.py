"""Which physical plan: every worker with the whole index, or the index shared out over matchers."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from tidings.balance.spec import Sample, WantedPlan
from tidings.errors import InputError
from tidings.index.builder import create_index
from tidings.index.manifest import PlanRecord
from tidings.index.reader import Index
from tidings.query.table import Refused

PLANS = ("auto", "replicated", "partitioned")
_SEED = 20_13  # where the random placement starts; fixed, so that runs repeat


@dataclass(frozen=True, slots=True)
class PlannedIndex:
    """An index built for a plan, why that plan, and what could not be put in."""

    index: Index
    plan: str
    why: str
    refused: tuple[Refused, ...]


def plan_index(
    folder: Path,
    subscriptions: pa.Table,
    plan: str,
    wanted: WantedPlan,
    sample: Sample,
    limit_bytes: int | None = None,
) -> PlannedIndex:
    """Build the index that a plan needs. `auto` is replicated while the index fits beside everything else."""
    if plan not in PLANS:
        raise InputError(f"There is no plan called {plan!r}; choose one of: {', '.join(PLANS)}.")
    if plan == "partitioned":
        return _shared_out(folder, subscriptions, wanted, sample, "asked for")
    index, refused = create_index(folder, subscriptions)
    size, limit = index.size_bytes, limit_bytes if limit_bytes is not None else _limit_bytes()
    if plan == "replicated":
        return PlannedIndex(index, plan, "asked for", refused)
    if size <= limit:
        why = f"the index takes {size / 1e6:,.1f} MB, which every worker can map (limit {limit / 1e6:,.0f} MB)"
        return PlannedIndex(index, "replicated", why, refused)
    shutil.rmtree(folder)
    why = f"the index takes {size / 1e6:,.1f} MB, more than a worker should map (limit {limit / 1e6:,.0f} MB)"
    return _shared_out(folder, subscriptions, wanted, sample, why)


def plan_record(wanted: WantedPlan) -> PlanRecord:
    """What an index notes of the plan that is wanted."""
    return PlanRecord(wanted.partitioner, wanted.matchers, _SEED, wanted.placement, origin=wanted.origin)


def fits(index: Index) -> bool:
    """Whether every worker can map the whole of an index beside everything else."""
    return index.size_bytes <= _limit_bytes()


def _shared_out(
    folder: Path,
    subscriptions: pa.Table,
    wanted: WantedPlan,
    sample: Sample,
    why: str,
) -> PlannedIndex:
    index, refused = create_index(folder, subscriptions, plan_record(wanted), wanted.learn(sample))
    how = f"{wanted.matchers} matchers, words by {wanted.partitioner}, subscriptions by {wanted.placement}"
    if wanted.by_space:
        how = f"{wanted.matchers} matchers, places and words by {wanted.partitioner}"
    return PlannedIndex(index, "partitioned", f"{why}, with {how}", refused)


def _limit_bytes() -> int:
    """A quarter of this machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4
