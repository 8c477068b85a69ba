"""The daemon prepares what all Python workers need before it forks them."""

from __future__ import annotations

import pyarrow as pa
from tests.spark.fixtures import run_python

COUNT_OBJECTS = """
import gc
import pyarrow as pa
import tidings

def count_objects(batches):
    for _ in batches:
        pass
    yield pa.RecordBatch.from_pydict({"frozen": [gc.get_freeze_count()], "tracked": [len(gc.get_objects())]})

found = tidings.session().range(4, numPartitions=2).mapInArrow(count_objects, "frozen bigint, tracked bigint").toArrow()
assert min(found["frozen"].to_pylist()) > 3 * max(found["tracked"].to_pylist()), found
"""


def test_objects_of_the_daemon_are_frozen_before_the_fork():
    """In a session of its own: workers that earlier tests used track what those imported."""
    run_python(COUNT_OBJECTS)


def test_workers_have_the_modules_of_matching_preloaded(spark):
    def list_modules(batches):
        import sys

        for _ in batches:
            pass
        names = ("numba", "pandas", "pyarrow", "tidings.spark.stages", "tidings.routing.router", "pyspark.worker")
        yield pa.RecordBatch.from_pydict({"missing": [",".join(name for name in names if name not in sys.modules)]})

    assert set(
        spark.range(2, numPartitions=2).mapInArrow(list_modules, "missing string").toArrow()["missing"].to_pylist()
    ) == {""}


def test_daemon_loads_the_kernels_of_every_batch_only():
    """Matching workers never call most kernels. Loading all of them would delay every start of a stream."""
    run_python(
        "import sys\n"
        "from tidings.jit import load_kernels, loaded_kernels\n"
        "from tidings.spark.daemon import KERNEL_PACKAGES\n"
        "unused = ('tidings.correlate', 'tidings.balance', 'tidings.crawl', 'tidings.store', 'tidings.stream')\n"
        "assert loaded_kernels() == []\n"
        "load_kernels(KERNEL_PACKAGES)\n"
        "assert not [name for name in sys.modules if name.startswith(unused)]\n"
        "assert 'tidings.matching.postings_kernel.find_candidates' in loaded_kernels()\n"
        "assert {name.split('.')[1] for name in loaded_kernels()} == {'text', 'matching'}"
    )


def test_importing_the_stream_loads_no_kernels():
    run_python("import tidings.stream.app; from tidings.jit import loaded_kernels; assert loaded_kernels() == []")
