"""Read the plan of an index from its files."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from tidings.index.manifest import PlanRecord
from tidings.plan.compact import is_worth_compacting
from tidings.plan.space import SpatialPlan, read_spatial_plan
from tidings.plan.words import HashPlan, LearnedPlan, WordPlan, read_word_plan


def load_plan(folder: Path, record: PlanRecord | None) -> WordPlan | SpatialPlan | None:
    """Return the spatial plan or the word plan of an index; None for a replicated index."""
    if record is not None and record.spatial_file:
        return cached_spatial_plan(folder / record.spatial_file)
    return load_word_plan(folder, record)


def load_word_plan(folder: Path, record: PlanRecord | None) -> WordPlan | None:
    """Return the word plan of an index; None for a replicated index."""
    if record is None:
        return None
    return _cached_word_plan(folder / record.word_file) if record.word_file else HashPlan(record.matchers)


@lru_cache(maxsize=4)  # files of an index never change
def cached_spatial_plan(path: Path) -> SpatialPlan:
    """Return the spatial plan in a file of an index."""
    return read_spatial_plan(path)


@lru_cache(maxsize=4)
def has_grown(path: Path) -> bool:
    """Return whether the spatial plan in a file of an index is worth compacting."""
    return is_worth_compacting(cached_spatial_plan(path))


@lru_cache(maxsize=4)
def _cached_word_plan(path: Path) -> LearnedPlan:
    return read_word_plan(path)
