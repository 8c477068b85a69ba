"""The plan of words, or of places and words, that an index was made with."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from tidings.index.manifest import PlanRecord
from tidings.index.spatial_shards import space_plan
from tidings.plan.space import SpacePlan
from tidings.plan.words import HashPlan, LearnedPlan, WordPlan, load_plan


def plan_of(folder: Path, record: PlanRecord | None) -> WordPlan | SpacePlan | None:
    """Which matchers are responsible for what; None for an index that is not shared out."""
    return space_plan(folder / record.space) if record is not None and record.space else word_plan(folder, record)


def word_plan(folder: Path, record: PlanRecord | None) -> WordPlan | None:
    """Which matchers are responsible for words; None for an index that is not shared out."""
    if record is None:
        return None
    return _learned(folder / record.words) if record.words else HashPlan(record.matchers)


@lru_cache(maxsize=4)  # files of an index never change
def _learned(path: Path) -> LearnedPlan:
    return load_plan(path)
