"""Kernels give the same results as plain Python: a part of the contract without the compiler."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SELECTED = "test_with_deduplication or test_every_branch and 1000 and not 70 and not trie"


def test_kernels_give_the_same_results_without_the_compiler():
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), environment.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", "-k", SELECTED]
    # Hashes overflow on purpose; only plain NumPy warns about it.
    warnings = ["-W", "ignore:overflow encountered:RuntimeWarning"]
    files = ["tests/contract/test_dedup.py", "tests/contract/test_examples.py"]
    result = subprocess.run([*command, *warnings, *files], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-2000:]
    assert " passed" in result.stdout
