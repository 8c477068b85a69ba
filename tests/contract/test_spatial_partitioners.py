"""Spatial partitioners satisfy the contract; plans are the same in other processes; damaged files are rejected."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from functools import partial

import pytest

from tidings.balance.spatial_registry import SPATIAL_PARTITIONERS, fit_spatial_plan
from tidings.errors import InputError
from tidings.plan.space import SpatialPlan, read_spatial_plan, write_spatial_plan
from tidings.testing.contract import (
    build_post_workload,
    check_spatial_partitioner,
    describe_spatial_plan,
    town_workload,
)


def fit_towns(name: str, matchers: int) -> SpatialPlan:
    return fit_spatial_plan(name, build_post_workload(*town_workload()), matchers)


@pytest.mark.parametrize("name", SPATIAL_PARTITIONERS)
def test_a_spatial_partitioner_satisfies_the_contract(name):
    check_spatial_partitioner(partial(fit_spatial_plan, name))


@pytest.mark.parametrize("name", SPATIAL_PARTITIONERS)
def test_a_plan_has_the_name_of_its_algorithm(name):
    assert fit_towns(name, 3).algorithm == name


def test_another_process_gives_the_same_plans():
    code = (
        "from tests.contract.test_spatial_partitioners import *\n"
        "print([describe_spatial_plan(fit_towns(name, 3)) for name in SPATIAL_PARTITIONERS])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=600)
    plans = [describe_spatial_plan(fit_towns(name, 3)) for name in SPATIAL_PARTITIONERS]
    assert result.stdout.strip() == str(plans)


def test_the_shipped_check_rejects_a_wrong_partitioner():
    def fit_one_matcher(workload, matchers):
        return replace(fit_spatial_plan("kdtree", workload, 1), matchers=matchers)

    with pytest.raises(AssertionError, match="get posts"):
        check_spatial_partitioner(fit_one_matcher, max_examples=5)


def test_an_unknown_partitioner_is_an_error_that_lists_the_known_ones():
    with pytest.raises(InputError, match="hybrid, kdt, grid"):
        fit_spatial_plan("astrology", None, 3)


def test_a_file_that_is_not_a_plan_is_rejected_by_name(tmp_path):
    path = tmp_path / "it.plan"
    with pytest.raises(InputError, match="no such plan"):
        read_spatial_plan(path)
    path.write_bytes(b"PAR1")
    with pytest.raises(InputError, match="not a plan, or damaged"):
        read_spatial_plan(path)
    write_spatial_plan(fit_towns("kdtree", 3), path)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match="not a plan, or damaged"):
        read_spatial_plan(path)
