"""Serve the metrics of a stream to Prometheus. Every scrape reads the latest snapshot; there is no global registry."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from threading import Thread
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from tidings.errors import InputError
from tidings.matching.load import imbalance
from tidings.stream.metrics.correlations import CorrelationMetrics
from tidings.stream.metrics.health import bookkeeping_share
from tidings.stream.metrics.prometheus_correlations import correlation_families
from tidings.stream.metrics.snapshot import StreamSnapshot

ReadSnapshot = Callable[[], StreamSnapshot | None]
ReadCorrelations = Callable[[], CorrelationMetrics | None]

_COUNTERS = {
    "batches": "Batches since the stream started.",
    "posts": "Posts read since the stream started.",
    "matches": "Matches found since the stream started.",
    "rejected": "Rows rejected since the stream started.",
    "shed_posts": "Posts not sent to a matcher (one per post and matcher) since the stream started.",
    "rebalances": "Changes of the spatial plan since the stream started.",
    "rebalanced_bytes": "Bytes written for these changes.",
}
_GAUGES = {
    "batch": ("last_batch", "Number of the last batch."),
    "batch_seconds": ("batch_seconds", "Duration of the last batch that had posts."),
    "posts_per_second": ("posts_per_second", "Posts processed per second in the last batch that had posts."),
    "arriving_per_second": ("arriving_posts_per_second", "Posts that arrive per second."),
    "pending_posts": ("pending_posts", "Posts that no batch has read yet."),
    "pending_files": ("pending_files", "Files that no batch has read yet."),
    "index_version": ("index_version", "Index version of the last batch."),
    "plan_version": ("plan_version", "Plan version of the last batch."),
    "segments": ("segments", "Segments of the index."),
    "subscriptions": ("subscriptions", "Subscriptions in the index."),
    "plan_value": ("plan_value", "Imbalance times spread of the word plan, measured last."),
    "plan_value_when_learned": ("plan_value_when_learned", "The same when the plan was new."),
    "previous_plan_share": ("previous_plan_share", "Share of subscriptions placed by the previous plan."),
    "shed_level": ("shed_level", "Load-shedding level; 0 sheds nothing."),
    "backlog_posts": ("backlog_posts", "Posts not matched when the last batch began, including its own."),
    "backlog_seconds": ("backlog_seconds", "Estimated time to match them."),
    "max_latency_s": ("max_latency_seconds", "Latency above which load is shed."),
    "started_at": ("started_timestamp_seconds", "When the stream started."),
    "updated_at": ("updated_timestamp_seconds", "When the metrics were last updated."),
}
_MATCHER_COUNTERS = {
    "posts": ("posts", "Posts sent to a matcher since the stream started."),
    "matches": ("matches", "Matches of a matcher since the stream started."),
    "seconds": ("seconds", "Processor time of a matcher since the stream started."),
    "shed": ("shed_posts", "Posts not sent to a matcher since the stream started."),
}


class MetricsServer:
    """An HTTP server on `port`."""

    def __init__(self, server: WSGIServer, thread: Thread) -> None:
        self._server, self._thread = server, thread
        self.port = server.server_port

    def close(self) -> None:
        """Stop the server and release its port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def serve_metrics(
    port: int, snapshot: ReadSnapshot, correlations: ReadCorrelations = lambda: None, host: str = "127.0.0.1"
) -> MetricsServer:
    """Serve metrics on a port (0: any free port). Raises InputError if the port is not available."""
    registry = CollectorRegistry()
    registry.register(StreamCollector(snapshot, correlations))
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise InputError(f"--metrics-port {port}: already in use. Choose another port, or 0 for any.") from error
        reason = error.strerror or error
        raise InputError(f"--metrics-port {port}: cannot listen on {host} ({reason}). Choose another port.") from error
    except OverflowError as error:
        raise InputError(f"--metrics-port {port}: out of range. Choose 1 to 65535, or 0 for any.") from error
    return MetricsServer(server, thread)


class StreamCollector(Collector):
    """Converts the latest snapshot into metric families."""

    def __init__(self, snapshot: ReadSnapshot, correlations: ReadCorrelations) -> None:
        self._snapshot, self._correlations = snapshot, correlations

    def describe(self) -> list[Metric]:
        """Return nothing: the families depend on the snapshot."""
        return []

    def collect(self) -> Iterator[Metric]:
        snapshot = self._snapshot()
        is_up = snapshot is not None and snapshot.state == "running"
        yield GaugeMetricFamily("tidings_up", "1 while the stream runs.", value=float(is_up))
        if snapshot is not None:
            yield from _counters(snapshot)
            yield from _gauges(snapshot)
            yield from _breakdowns(snapshot)
            yield from _matcher_families(snapshot)
        if (correlations := self._correlations()) is not None:
            yield from correlation_families(correlations)


def _counters(snapshot: StreamSnapshot) -> Iterator[Metric]:
    labels = {
        "stream": snapshot.stream,
        "source": snapshot.source,
        "execution_mode": snapshot.execution_mode,
        "host": snapshot.host,
    }
    yield InfoMetricFamily("tidings_stream", "The stream.", value=labels)
    for name, help_text in _COUNTERS.items():
        yield CounterMetricFamily(f"tidings_{name}", help_text, value=getattr(snapshot, name))


def _gauges(snapshot: StreamSnapshot) -> Iterator[Metric]:
    for field, (name, help_text) in _GAUGES.items():
        value = getattr(snapshot, field)
        if value is not None:  # unknown is not 0
            yield GaugeMetricFamily(f"tidings_{name}", help_text, value=value)


def _breakdowns(snapshot: StreamSnapshot) -> Iterator[Metric]:
    phases = GaugeMetricFamily("tidings_batch_part_seconds", "Duration of parts of the last batch.", labels=["part"])
    for phase, milliseconds in snapshot.durations_ms.items():
        phases.add_metric([phase], milliseconds / 1000)
    yield phases
    share = bookkeeping_share(snapshot.durations_ms)
    if share is not None:
        yield GaugeMetricFamily("tidings_bookkeeping_ratio", "Share of Spark's overhead.", value=share)
    disk = GaugeMetricFamily("tidings_disk_bytes", "Disk usage by part.", labels=["part"])
    for part, size in snapshot.disk_bytes.items():
        disk.add_metric([part], size)
    yield disk


def _matcher_families(snapshot: StreamSnapshot) -> Iterator[Metric]:
    for field, (name, help_text) in _MATCHER_COUNTERS.items():
        family = CounterMetricFamily(f"tidings_matcher_{name}", help_text, labels=["matcher"])
        for load in snapshot.matchers:
            family.add_metric([str(load.matcher)], getattr(load, field))
        yield family
    owners = CounterMetricFamily(
        "tidings_owner_shed_matches", "Possible matches of an owner lost by shedding, in all runs.", labels=["owner"]
    )
    for owner, count in snapshot.shed_by_owner.items():
        owners.add_metric([owner], count)
    yield owners
    ratio = imbalance(snapshot.batch_matchers)
    if ratio is not None:
        help_text = "Processor time of the busiest matcher in the last batch, divided by the mean."
        yield GaugeMetricFamily("tidings_matcher_imbalance_ratio", help_text, value=ratio)
