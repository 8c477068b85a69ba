"""The figures of correlating, for Prometheus: what `tidings status` shows of it."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric

from tidings.stream.metrics.correlations import CorrelationFigures

_COUNTERS = {
    "tagged": ("tagged_posts", "Posts with tags and a time that came, in all runs."),
    "coefficients": ("coefficients", "Coefficients reported, in all runs."),
    "additions": ("single_additions", "Sets of tags given to a calculator between two plans, in all runs."),
    "caught_up": ("caught_up_notifications", "Notifications that made up for what was missed, in all runs."),
}
_DROPPED = ("late", "ahead", "untimed", "unreadable")  # why a post does not count at all
_GAUGES = {
    "batch_seconds": ("batch_seconds", "How long the last batch of correlating took."),
    "partitions": ("partitions", "Partitions of the tags in use."),
    "communication": ("communication", "Calculators that a post is told to, in the mean."),
    "gini": ("gini", "How uneven the loads of calculators are: 0 all the same, towards 1 one has all."),
    "max_load": ("max_load_ratio", "The part of all notifications that the busiest calculator gets."),
}
_MOMENTS = {
    "newest_us": ("newest_post_timestamp_seconds", "The time of the newest post."),
    "window_end_us": ("window_end_timestamp_seconds", "The end of the last window that was reported."),
}
_PREFIX = "tidings_correlations_"


def correlating(told: CorrelationFigures) -> Iterator[Metric]:
    """All of them, as metrics."""
    about = {"algorithm": told.algorithm, "most_partitions": str(told.most_partitions)}
    yield InfoMetricFamily(_PREFIX.rstrip("_"), "How tags are correlated.", value=about)
    yield GaugeMetricFamily(
        f"{_PREFIX}up", "1 while correlating runs beside the matching.", value=float(told.state == "running")
    )
    for field, (name, meaning) in _COUNTERS.items():
        yield CounterMetricFamily(_PREFIX + name, meaning, value=getattr(told, field))
    for field, (name, meaning) in _GAUGES.items():
        yield GaugeMetricFamily(_PREFIX + name, meaning, value=getattr(told, field))
    for field, (name, meaning) in _MOMENTS.items():
        if (moment_us := getattr(told, field)) is not None:  # none yet
            yield GaugeMetricFamily(_PREFIX + name, meaning, value=moment_us / 1_000_000)
    yield from _by_reason(told)


def _by_reason(told: CorrelationFigures) -> Iterator[Metric]:
    dropped = CounterMetricFamily(f"{_PREFIX}dropped_posts", "Posts that do not count, in all runs.", labels=["reason"])
    for reason in _DROPPED:
        dropped.add_metric([reason], getattr(told, reason))
    yield dropped
    yield CounterMetricFamily(
        f"{_PREFIX}capped_posts", "Posts with more tags than count, in all runs.", value=told.capped
    )
    renewed = CounterMetricFamily(
        f"{_PREFIX}repartitions", "Plans made anew, by what had become worse, in all runs.", labels=["reason"]
    )
    for reason, count in told.repartitions.items():
        renewed.add_metric([reason], count)
    yield renewed
