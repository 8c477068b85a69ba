"""The plan of words an index was made with."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from tidings.index.manifest import PlanRecord
from tidings.partition.words.plan import HashPlan, LearnedPlan, WordPlan, load_plan


def word_plan(folder: Path, record: PlanRecord | None) -> WordPlan | None:
    """Which matchers are responsible for words; None for an index that is not shared out."""
    if record is None:
        return None
    return _learned(folder / record.words) if record.words else HashPlan(record.matchers)


@lru_cache(maxsize=4)  # files of an index never change
def _learned(path: Path) -> LearnedPlan:
    return load_plan(path)
