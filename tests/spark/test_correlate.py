"""Correlating on Spark: the stages give what one process gives, with partitioners as tasks and many calculators."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tidings.correlate.audit import audit, centralised
from tidings.correlate.partition.registry import ALGORITHMS
from tidings.correlate.settings import Settings
from tidings.correlate.tag_routing_pipeline import in_this_process
from tidings.spark import correlate as job


def posts_of(spark, count: int = 3000):
    rng = np.random.default_rng(4)
    tags = [[f"t{n}" for n in rng.zipf(1.6, rng.integers(1, 5)) % 90] for _ in range(count)]
    times = rng.integers(0, 50_000_000, count)
    return spark.createDataFrame(pa.table({"time": pa.array(times, pa.timestamp("us", "UTC")), "tags": pa.array(tags)}))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_partitioners_as_tasks_make_the_same_plan(spark, algorithm, monkeypatch):
    monkeypatch.setattr(job, "_WORTH_TASKS", 0)
    chosen = Settings.checked("10 s", partitions=5, partitioners=3, algorithm=algorithm)
    tagged = job.read_tagged(posts_of(spark), (), None)
    sample = tagged.posts.sets(0, len(tagged.posts))
    one, other = job.on_spark(spark, chosen)(sample, 5), in_this_process(chosen)(sample, 5)
    assert one.tags.tolist() == other.tags.tolist()
    assert one.owners.tolist() == other.owners.tolist()


def test_what_is_reported_is_exact(spark):
    chosen = Settings.checked("10 s", "5 s", partitions=6, sightings=1, checked_every=100, threshold=0.05)
    found = job.correlate(posts_of(spark), chosen)
    assert found.dissemination.repartitions
    result = found.audited()
    assert (result.coverage, result.mean_error) == (1.0, 0.0)
    exact = centralised(found.tagged.posts, chosen, chosen.min_support)
    assert sum(batch.num_rows for batch in found.coefficients()) == len(exact)
    assert audit(exact, exact, 1).exact == len(exact)


def test_no_posts_give_no_coefficients(spark):
    found = job.correlate(posts_of(spark).where("false"), Settings.checked("10 s", partitions=3))
    assert sum(batch.num_rows for batch in found.coefficients()) == 0
    assert found.audited().coverage == 1.0
