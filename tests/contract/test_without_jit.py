"""Kernels give the same results as plain Python: a part of the contract without the compiler."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FAST = "test_with_deduplication or test_every_branch and 1000 and not 70 and not trie and not hybrid"
HYBRID = "test_every_branch and 1000 and not 70 and hybrid"  # learning such a plan takes a minute


@pytest.mark.parametrize("selected", [FAST, pytest.param(HYBRID, marks=pytest.mark.long)], ids=["fast", "hybrid"])
def test_kernels_give_the_same_results_without_the_compiler(selected):
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), environment.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", "-k", selected]
    # Hashes overflow on purpose; only plain NumPy warns about it.
    warnings = ["-W", "ignore:overflow encountered:RuntimeWarning"]
    files = ["tests/contract/test_dedup.py", "tests/contract/test_examples.py"]
    result = subprocess.run([*command, *warnings, *files], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-2000:]
    assert " passed" in result.stdout
