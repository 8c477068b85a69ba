"""Execution mode of an index: replicated to every worker, or partitioned over matchers."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pyarrow as pa

from tidings.balance.spec import PlanSpec, SampleSource
from tidings.errors import InputError
from tidings.index.builder import CountTerms, create_index
from tidings.index.manifest import PlanRecord
from tidings.index.reader import Index
from tidings.query.table import InvalidSubscription
from tidings.text.term_statistics import TermStatistics

MODES = ("auto", "replicated", "partitioned")
_SEED = 20_13  # of the random placement; fixed, so that runs are reproducible


@dataclass(frozen=True, slots=True)
class BuiltIndex:
    """An index, its execution mode with the reason for it, and the rejected subscriptions."""

    index: Index
    mode: str
    reason: str
    rejected: tuple[InvalidSubscription, ...]


def build_index_for_mode(
    folder: Path,
    subscriptions: pa.Table,
    mode: str,
    spec: PlanSpec,
    sample: SampleSource,
    limit_bytes: int | None = None,
    is_drawn: bool = False,
) -> BuiltIndex:
    """Build the index for a mode. `auto` is replicated while the index takes at most `limit_bytes`.

    Anchors are chosen by the sample if it is drawn already, or if the plan is learned from it.
    """
    if mode not in MODES:
        raise InputError(f"plan: unknown value {mode!r}. Choose one of: {', '.join(MODES)}.")
    sample = cache(sample)
    if mode == "partitioned":
        return _build_partitioned(folder, subscriptions, spec, sample, "requested", is_drawn)
    index, rejected = create_index(folder, subscriptions, count_terms=_counter(sample) if is_drawn else None)
    size, limit = index.size_bytes, limit_bytes if limit_bytes is not None else _limit_bytes()
    if mode == "replicated":
        return BuiltIndex(index, mode, "requested", rejected)
    if size <= limit:
        reason = f"the index takes {size / 1e6:,.1f} MB, within the limit per worker ({limit / 1e6:,.0f} MB)"
        return BuiltIndex(index, "replicated", reason, rejected)
    shutil.rmtree(folder)
    reason = f"the index takes {size / 1e6:,.1f} MB, above the limit per worker ({limit / 1e6:,.0f} MB)"
    return _build_partitioned(folder, subscriptions, spec, sample, reason, is_drawn)


def make_plan_record(spec: PlanSpec) -> PlanRecord:
    """Return the record of a partition plan that the index manifest stores."""
    return PlanRecord(spec.partitioner, spec.matchers, _SEED, spec.placement, origin=spec.plan_checksum)


def fits_in_memory(index: Index) -> bool:
    """Whether the index is small enough for replicated mode."""
    return index.size_bytes <= _limit_bytes()


def _build_partitioned(
    folder: Path,
    subscriptions: pa.Table,
    spec: PlanSpec,
    sample: SampleSource,
    reason: str,
    is_drawn: bool,
) -> BuiltIndex:
    count_terms = _counter(sample) if is_drawn or spec.must_fit else None
    index, rejected = create_index(
        folder, subscriptions, make_plan_record(spec), spec.fitter(sample, is_drawn), count_terms
    )
    layout = f"{spec.matchers} matchers, terms by {spec.partitioner}, subscriptions by {spec.placement}"
    if spec.is_spatial:
        layout = f"{spec.matchers} matchers, regions and terms by {spec.partitioner}"
    return BuiltIndex(index, "partitioned", f"{reason}, with {layout}", rejected)


def _counter(sample: SampleSource) -> CountTerms:
    return lambda: TermStatistics.of(sample()[0])


def _limit_bytes() -> int:
    """Return a quarter of the memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4
