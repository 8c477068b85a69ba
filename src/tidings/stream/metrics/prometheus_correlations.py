"""The metrics of correlations for Prometheus; `tidings status` shows the same."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric

from tidings.stream.metrics.correlations import CorrelationMetrics

_COUNTERS = {
    "tagged": ("tagged_posts", "Posts with tags and a valid time, in all runs."),
    "coefficients": ("coefficients", "Coefficients reported, in all runs."),
    "additions": ("single_additions", "Tag sets assigned to a calculator between two plans, in all runs."),
    "caught_up": ("caught_up_notifications", "Notifications sent later for such tag sets, in all runs."),
    "capped": ("capped_posts", "Posts with more tags than are counted, in all runs."),
}
_DROP_REASONS = ("late", "ahead", "untimed", "unreadable")
_GAUGES = {
    "batch_seconds": ("batch_seconds", "Duration of the last batch of the correlation query."),
    "partitions": ("partitions", "Partitions of the tags in use."),
    "communication": ("communication", "Mean number of calculators that a post is sent to."),
    "gini": ("gini", "Inequality of the loads of calculators: 0 all equal, towards 1 one has everything."),
    "max_load": ("max_load_ratio", "Share of all notifications that the busiest calculator receives."),
}
_TIMESTAMPS = {
    "newest_us": ("newest_post_timestamp_seconds", "Time of the newest post."),
    "window_end_us": ("window_end_timestamp_seconds", "End of the last reported window."),
}
_PREFIX = "tidings_correlations_"


def correlation_families(metrics: CorrelationMetrics) -> Iterator[Metric]:
    """Yield all metric families."""
    labels = {"algorithm": metrics.algorithm, "max_partitions": str(metrics.max_partitions)}
    yield InfoMetricFamily(_PREFIX.rstrip("_"), "How tags are correlated.", value=labels)
    is_up = float(metrics.state == "running")
    yield GaugeMetricFamily(f"{_PREFIX}up", "1 while the correlation query runs.", value=is_up)
    for field, (name, help_text) in _COUNTERS.items():
        yield CounterMetricFamily(_PREFIX + name, help_text, value=getattr(metrics, field))
    for field, (name, help_text) in _GAUGES.items():
        yield GaugeMetricFamily(_PREFIX + name, help_text, value=getattr(metrics, field))
    for field, (name, help_text) in _TIMESTAMPS.items():
        if (time_us := getattr(metrics, field)) is not None:
            yield GaugeMetricFamily(_PREFIX + name, help_text, value=time_us / 1_000_000)
    yield from _families_by_reason(metrics)


def _families_by_reason(metrics: CorrelationMetrics) -> Iterator[Metric]:
    dropped = CounterMetricFamily(f"{_PREFIX}dropped_posts", "Posts not counted, in all runs.", labels=["reason"])
    for reason in _DROP_REASONS:
        dropped.add_metric([reason], getattr(metrics, reason))
    yield dropped
    repartitions = CounterMetricFamily(
        f"{_PREFIX}repartitions", "New partitions of the tags by the measure that became worse, in all runs.",
        labels=["reason"],
    )  # fmt: skip
    for reason, count in metrics.repartitions.items():
        repartitions.add_metric([reason], count)
    yield repartitions
