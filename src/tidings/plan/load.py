"""A plan from its file, whatever it is a plan of."""

from __future__ import annotations

from pathlib import Path

from tidings.plan import file
from tidings.plan.space import KIND as SPACE
from tidings.plan.space import SpacePlan, load_space_plan
from tidings.plan.words import LearnedPlan, load_plan


def load_any_plan(path: Path) -> LearnedPlan | SpacePlan:
    """InputError, naming the file, when it is none."""
    return load_space_plan(path) if file.format_of(path) == SPACE[0] else load_plan(path)
