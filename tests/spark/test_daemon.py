"""Workers are forked from a process that has done beforehand what all of them need."""

from __future__ import annotations

import pyarrow as pa


def test_a_worker_has_next_to_no_garbage_to_look_through_after_a_task(spark):
    def counted(batches):
        import gc

        for _ in batches:
            pass
        counts = {"frozen": [gc.get_freeze_count()], "looked_through": [len(gc.get_objects())]}
        yield pa.RecordBatch.from_pydict(counts)

    found = spark.range(4, numPartitions=2).mapInArrow(counted, "frozen bigint, looked_through bigint").toArrow()
    assert min(found["frozen"].to_pylist()) > 10 * max(found["looked_through"].to_pylist())


def test_a_worker_imports_nothing_large_of_its_own(spark):
    def imported(batches):
        import sys

        for _ in batches:
            pass
        names = ("numba", "pandas", "pyarrow", "tidings.spark.stages", "tidings.routing.router", "pyspark.worker")
        yield pa.RecordBatch.from_pydict({"missing": [",".join(name for name in names if name not in sys.modules)]})

    assert set(
        spark.range(2, numPartitions=2).mapInArrow(imported, "missing string").toArrow()["missing"].to_pylist()
    ) == {""}
