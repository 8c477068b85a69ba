"""Correlating on Spark returns what one process returns, with partitioners as tasks and many calculators."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tidings.correlate.audit import audit, compute_exact
from tidings.correlate.partition.registry import ALGORITHMS
from tidings.correlate.settings import CorrelationSettings
from tidings.correlate.tag_routing_pipeline import local_planner
from tidings.spark import correlate as spark_correlate


def make_posts(spark, count: int = 3000):
    rng = np.random.default_rng(4)
    tags = [[f"t{n}" for n in rng.zipf(1.6, rng.integers(1, 5)) % 90] for _ in range(count)]
    times = rng.integers(0, 50_000_000, count)
    return spark.createDataFrame(pa.table({"time": pa.array(times, pa.timestamp("us", "UTC")), "tags": pa.array(tags)}))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_partitioners_as_spark_tasks_make_the_same_plan(spark, algorithm, monkeypatch):
    monkeypatch.setattr(spark_correlate, "_SPARK_MIN_TAGSETS", 0)
    chosen = CorrelationSettings.parse("10 s", partitions=5, partitioners=3, algorithm=algorithm)
    tagged = spark_correlate.read_tagged_posts(make_posts(spark), (), None)
    sample = tagged.posts.distinct_tag_sets(0, len(tagged.posts))
    on_spark, in_process = spark_correlate.spark_plan_maker(spark, chosen)(sample, 5), local_planner(chosen)(sample, 5)
    assert on_spark.tags.tolist() == in_process.tags.tolist()
    assert on_spark.owners.tolist() == in_process.owners.tolist()


def test_reported_coefficients_are_exact(spark):
    chosen = CorrelationSettings.parse("10 s", "5 s", partitions=6, min_sightings=1, check_every=100, threshold=0.05)
    found = spark_correlate.correlate(make_posts(spark), chosen)
    assert found.pipeline.repartitions
    result = found.run_audit()
    assert (result.coverage, result.mean_error) == (1.0, 0.0)
    exact = compute_exact(found.tagged.posts, chosen, chosen.min_support)
    assert sum(batch.num_rows for batch in found.coefficients()) == len(exact)
    assert audit(exact, exact, 1).exact == len(exact)


def test_no_posts_give_no_coefficients(spark):
    found = spark_correlate.correlate(make_posts(spark).where("false"), CorrelationSettings.parse("10 s", partitions=3))
    assert sum(batch.num_rows for batch in found.coefficients()) == 0
    assert found.run_audit().coverage == 1.0
