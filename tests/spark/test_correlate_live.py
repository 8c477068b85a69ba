"""Correlating in a stream reports every window once and exactly, even if batches fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.stream.tagged import LATENESS, PANES, SLIDE, TaggedFeed, reported_windows

from tidings.correlate.settings import CorrelationSettings, StreamCorrelationSettings
from tidings.spark.correlate_live import state_session, stream_reports
from tidings.stream.correlation_query import CorrelationSink

SECOND = 1_000_000
SETTINGS = CorrelationSettings(
    SLIDE * PANES * SECOND,
    SLIDE * SECOND,
    4,
    2,
    min_sightings=1,
    check_every=50,
    threshold=0.05,
    posts_per_partition=60,
)
STREAM_SETTINGS = StreamCorrelationSettings(SETTINGS, LATENESS * SECOND)


class FailingSink(CorrelationSink):
    """Fails in one batch, after everything was written and before Spark commits the batch."""

    fails_at = -1

    def __call__(self, reports, batch):
        super().__call__(reports, batch)
        if batch == self.fails_at:
            raise RuntimeError("on purpose")


def run_stream(spark, feed: TaggedFeed, folder: Path, fail_at: int):
    session = state_session(spark, SETTINGS)
    schema = "id bigint, time string, text string"
    posts = session.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(str(feed.folder))
    sink: Any = FailingSink.open(folder, STREAM_SETTINGS)
    sink.fails_at = fail_at
    writer = stream_reports(posts, STREAM_SETTINGS).writeStream.foreachBatch(sink).outputMode("append")
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    if fail_at < 0:
        assert query.awaitTermination(240)
    else:
        with pytest.raises(Exception, match="on purpose"):
            query.awaitTermination(240)
    return sink


@pytest.mark.timeout(1_800)
def test_windows_are_exact_even_if_batches_fail(spark, tmp_path):
    feed, folder = TaggedFeed(tmp_path / "in"), tmp_path / "correlations"
    folder.mkdir()
    feed.add_files(4, moments=2)
    for fail_at in (1, 2, -1):
        sink = run_stream(spark, feed, folder, fail_at)
    exact = feed.windows()
    assert len(exact) > 50
    assert reported_windows(folder / "windows") == exact
    metrics = sink.metrics
    assert (metrics.batch, metrics.tagged, metrics.late) == (3, len(feed.posts), 0)
    assert metrics.repartitions["scaling"]
    assert metrics.coefficients == len(exact)
