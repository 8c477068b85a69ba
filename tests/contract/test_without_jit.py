"""Kernels mean the same as plain Python: a small part of the contract with the compiler off."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CHOSEN = "test_with_the_merge or test_every_branch and 1000 and not 70 and not trie"


def test_kernels_give_the_same_without_the_compiler():
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), environment.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", "-k", CHOSEN]
    # Hashes overflow on purpose; only plain numpy says so.
    warnings = ["-W", "ignore:overflow encountered:RuntimeWarning"]
    files = ["tests/contract/test_merge.py", "tests/contract/test_examples.py"]
    told = subprocess.run([*command, *warnings, *files], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert told.returncode == 0, told.stdout[-4000:] + told.stderr[-2000:]
    assert " passed" in told.stdout
