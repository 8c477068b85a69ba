"""The base installation works without the packages of the extras."""

from __future__ import annotations

import pytest
from tests.spark.fixtures import run_python

# Fails every import of a package that only an extra installs, as if it were not installed.
BLOCK = """
import sys

EXTRAS = {
    "aiohttp", "apsw", "fastapi", "feedparser", "httptools", "mtkahypar", "nh3", "orjson",
    "prometheus_client", "psycopg", "pydantic", "pymetis", "rtree", "sse_starlette", "standardwebhooks", "starlette",
    "uvicorn", "uvloop", "yarl",
}


class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in EXTRAS or name.startswith("google.protobuf"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Blocker())
"""

IMPORTS = """
from tidings import match, rejected, session
import tidings.batch.correlate_files, tidings.batch.match_files, tidings.batch.trend_samples
import tidings.demo.feed, tidings.demo.live_query
import tidings.cli.app, tidings.cli.main
import tidings.spark.daemon
"""

BUILD_INDEXES = """
import tempfile
from pathlib import Path
import numpy as np, pyarrow as pa
from tidings.balance.spec import PlanSpec
from tidings.balance.word_registry import DEFAULT_PARTITIONER
from tidings.spark.execution_mode import build_index_for_mode

texts = pa.array(["a storm in the city", "rain and storm", "sun"] * 20, pa.large_string())
table = pa.table({"id": [1, 2], "query": ["storm rain", "sun"]})
for mode in ("replicated", "partitioned"):
    spec = PlanSpec.parse(DEFAULT_PARTITIONER, 2, "anchor")
    folder = Path(tempfile.mkdtemp()) / mode
    built = build_index_for_mode(folder, table, mode, spec, lambda: (texts, np.full((len(texts), 2), np.nan)))
    assert built.mode == mode and not built.rejected
"""

COMPILE = "from tidings.jit import load_kernels; load_kernels()"


@pytest.mark.parametrize("program", [IMPORTS, BUILD_INDEXES, COMPILE], ids=["import", "build indexes", "compile"])
def test_base_installation_needs_no_extra(program):
    run_python(BLOCK + program)
