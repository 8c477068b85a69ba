"""The figures of a stream for Prometheus: each scrape asks for the newest. There is no global state."""

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
from tidings.stream.metrics.correlations import CorrelationFigures
from tidings.stream.metrics.health import bookkeeping_share
from tidings.stream.metrics.prometheus_correlations import correlating
from tidings.stream.metrics.snapshot import StreamFigures

Asker = Callable[[], StreamFigures | None]
TagsAsker = Callable[[], CorrelationFigures | None]

_COUNTERS = {
    "batches": "Batches done since the stream started.",
    "posts": "Posts taken since the stream started.",
    "matches": "Matches found since the stream started.",
    "rejected": "Rows that could not be used since the stream started.",
    "withheld": "Posts that were withheld from matchers (once for each) since the stream started.",
    "adjustments": "Times that a plan of places was adjusted since the stream started.",
    "adjusted_bytes": "Bytes of subscriptions that went from one matcher to another by that.",
}
_GAUGES = {
    "batch": ("last_batch", "The number of the last batch."),
    "batch_seconds": ("batch_seconds", "How long the last batch that had posts took."),
    "posts_per_second": ("posts_per_second", "Posts worked off, during the last batch that had any."),
    "arriving_per_second": ("arriving_posts_per_second", "Posts that arrive."),
    "waiting_posts": ("waiting_posts", "Posts that have arrived and are not yet taken."),
    "waiting_files": ("waiting_files", "Files that have arrived and are not yet taken."),
    "index_version": ("index_version", "The index version the last batch used."),
    "plan_version": ("plan_version", "The plan version the last batch used."),
    "segments": ("segments", "Segments of the index."),
    "subscriptions": ("subscriptions", "Subscriptions in the index."),
    "plan_value": ("plan_value", "Imbalance times spread of the plan of words, measured last."),
    "plan_value_at_first": ("plan_value_when_learned", "The same right after the plan was learned."),
    "old_plan_share": ("old_plan_share", "Part of the subscriptions that lies by the plan before this one."),
    "shed_level": ("shed_level", "How much is shed: 0 nothing, each level more."),
    "unread_posts": ("unread_posts", "Posts unread when the last batch began, its own included."),
    "unread_seconds": ("unread_seconds", "How long these were going to take."),
    "accepted_latency_s": ("accepted_latency_seconds", "How late a match may be before anything is shed."),
    "started_at": ("started_timestamp_seconds", "When the stream started."),
    "updated_at": ("updated_timestamp_seconds", "When these figures were last told."),
}
_MATCHER = {
    "posts": ("posts", "Posts a matcher was sent since the stream started."),
    "matches": ("matches", "Matches a matcher has found since the stream started."),
    "seconds": ("seconds", "Processor time a matcher has taken since the stream started."),
    "withheld": ("withheld_posts", "Posts a matcher was spared since the stream started."),
}


class Server:
    """Answers on `port` until it is closed."""

    def __init__(self, server: WSGIServer, thread: Thread) -> None:
        self._server, self._thread = server, thread
        self.port = server.server_port

    def close(self) -> None:
        """Answer no more, and give the port back."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _none() -> None:
    return None


def serve(port: int, figures: Asker, tags: TagsAsker = _none, host: str = "127.0.0.1") -> Server:
    """Serve what `figures` and, of correlating, `tags` tell at each request; port 0 picks a free one.

    InputError when the port cannot be had.
    """
    registry = CollectorRegistry()
    registry.register(StreamCollector(figures, tags))
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise InputError(f"Port {port} is in use already; choose another for the metrics, or 0 for any.") from error
        reason = error.strerror or error
        raise InputError(f"Metrics cannot be served on {host}:{port} ({reason}); choose another port.") from error
    except OverflowError as error:
        raise InputError(f"Port {port} is none; choose one from 1 to 65535 for the metrics, or 0 for any.") from error
    return Server(server, thread)


class StreamCollector(Collector):
    """Turns figures into metrics at the moment they are asked for."""

    def __init__(self, figures: Asker, tags: TagsAsker) -> None:
        self._figures, self._tags = figures, tags

    def describe(self) -> list[Metric]:
        """Nothing in advance: which metrics there are depends on the figures."""
        return []

    def collect(self) -> Iterator[Metric]:
        told = self._figures()
        is_up = told is not None and told.state == "running"
        yield GaugeMetricFamily("tidings_up", "1 while the stream runs.", value=float(is_up))
        if told is not None:
            yield from _totals(told)
            yield from _moments(told)
            yield from _parts(told)
            yield from _matchers(told)
        if (tags := self._tags()) is not None:
            yield from correlating(tags)


def _totals(told: StreamFigures) -> Iterator[Metric]:
    about = {"stream": told.stream, "source": told.source, "plan": told.plan, "host": told.host}
    yield InfoMetricFamily("tidings_stream", "What runs.", value=about)
    for name, meaning in _COUNTERS.items():
        yield CounterMetricFamily(f"tidings_{name}", meaning, value=getattr(told, name))


def _moments(told: StreamFigures) -> Iterator[Metric]:
    for field, (name, meaning) in _GAUGES.items():
        value = getattr(told, field)
        if value is not None:  # what the source cannot tell is not 0
            yield GaugeMetricFamily(f"tidings_{name}", meaning, value=value)


def _parts(told: StreamFigures) -> Iterator[Metric]:
    """What the last batch's time and the disk are spent on."""
    spent = GaugeMetricFamily("tidings_batch_part_seconds", "What the last batch spent its time on.", labels=["part"])
    for part, milliseconds in told.durations_ms.items():
        spent.add_metric([part], milliseconds / 1000)
    yield spent
    share = bookkeeping_share(told.durations_ms)
    if share is not None:
        yield GaugeMetricFamily("tidings_bookkeeping_ratio", "The part of it that is Spark's bookkeeping.", value=share)
    disk = GaugeMetricFamily("tidings_disk_bytes", "What takes how much disk.", labels=["what"])
    for what, size in told.disk_bytes.items():
        disk.add_metric([what], size)
    yield disk


def _matchers(told: StreamFigures) -> Iterator[Metric]:
    for field, (name, meaning) in _MATCHER.items():
        family = CounterMetricFamily(f"tidings_matcher_{name}", meaning, labels=["matcher"])
        for load in told.matchers:
            family.add_metric([str(load.matcher)], getattr(load, field))
        yield family
    owners = CounterMetricFamily(
        "tidings_owner_withheld",
        "Possible matches of an owner that were never looked for, in all runs.",
        labels=["owner"],
    )
    for owner, count in told.withheld_owners.items():
        owners.add_metric([owner], count)
    yield owners
    ratio = imbalance(told.batch_matchers)
    if ratio is not None:
        meaning = "Processor time of the busiest matcher in the last batch, of the mean."
        yield GaugeMetricFamily("tidings_matcher_imbalance_ratio", meaning, value=ratio)
