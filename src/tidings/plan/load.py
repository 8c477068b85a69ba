"""Read a plan file of any format."""

from __future__ import annotations

from pathlib import Path

from tidings.plan.file import read_plan_format
from tidings.plan.space import SPATIAL_PLAN_FORMAT, SpatialPlan, read_spatial_plan
from tidings.plan.words import LearnedPlan, read_word_plan


def read_plan(path: Path) -> LearnedPlan | SpatialPlan:
    """Return a word plan or a spatial plan; InputError names a file that is neither."""
    return read_spatial_plan(path) if read_plan_format(path) == SPATIAL_PLAN_FORMAT[0] else read_word_plan(path)
