"""A plan from its file, whatever it is a plan of."""

from __future__ import annotations

from pathlib import Path

from tidings.partition import plan_file
from tidings.partition.space.plan import KIND as SPACE
from tidings.partition.space.plan import SpacePlan, load_space_plan
from tidings.partition.words.plan import LearnedPlan, load_plan


def load_any_plan(path: Path) -> LearnedPlan | SpacePlan:
    """InputError, naming the file, when it is none."""
    return load_space_plan(path) if plan_file.format_of(path) == SPACE[0] else load_plan(path)
