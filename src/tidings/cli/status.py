"""`tidings status`: show the state of a stream, whether it runs or not."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tidings.cli import status_webhooks
from tidings.cli.console import screen
from tidings.cli.options.common import JsonOption
from tidings.cli.options.state import DEFAULT_STATE, StateLocation, StateOption, WorkDirOption, locate_state
from tidings.cli.output import ignore_closed_pipe, print_rich, safe_json, to_line
from tidings.cli.status_correlations import correlation_rows
from tidings.cli.status_plan import format_plan, rebalance_rows, shed_rows
from tidings.cli.status_webhooks import WebhookStatus
from tidings.matching.load import MatcherLoad, imbalance
from tidings.stream.metrics.correlations import FOLDER, CorrelationMetrics, load_correlation_metrics
from tidings.stream.metrics.health import Condition, Health, bookkeeping_share, health
from tidings.stream.metrics.snapshot import StreamSnapshot, load_snapshot

if TYPE_CHECKING:
    from tidings.store import ShedCounts
    from tidings.store.rows import BatchRecord, RejectedRow, StoreSizes

HELP = """Show a stream: health, rates, backlog, batches, index, matchers, webhooks, rejected rows and disk use.

It only reads the store and the metrics of the stream, so it can be called at any time."""
EXAMPLES = """[bold]Examples[/]

tidings status

tidings status --json | jq .condition

watch tidings status --state /srv/tidings"""
_MAX_BATCHES, _MAX_REJECTED = 5, 5
_STYLES = {Condition.running: "bold green", Condition.failed: "bold red", Condition.gone: "bold red"}
_REASON_CELLS, _EXCERPT_CELLS = 80, 60


@dataclass(frozen=True, slots=True)
class StreamStatus:
    """A stream, its store and its webhooks at one moment."""

    location: StateLocation
    health: Health
    metrics: StreamSnapshot | None
    batches: list[BatchRecord]
    sizes: StoreSizes
    rejected: list[RejectedRow]
    disk_bytes: dict[str, int]
    free_bytes: int | None
    shed: ShedCounts
    webhooks: WebhookStatus
    correlations: CorrelationMetrics | None


def status(
    as_json: JsonOption = False,
    state: StateOption = DEFAULT_STATE,
    work_dir: WorkDirOption = None,
) -> None:
    current = read_status(locate_state(state, work_dir))
    with ignore_closed_pipe():
        if as_json:
            print(safe_json(to_dict(current)))
        else:
            print_rich(screen(), to_table(current), soft_wrap=False)


def read_status(location: StateLocation) -> StreamStatus:
    """Read the status from the store and from the metrics in the work directory."""
    with location.open_existing() as store:
        metrics = load_snapshot(location.work_dir)
        stream = metrics.stream or None if metrics is not None else None  # a stream has no name before its first batch
        sizes = store.sizes()
        disk = {**(metrics.disk_bytes if metrics is not None else {}), "store": sizes.bytes}
        return StreamStatus(
            location,
            health(metrics, time.time()),
            metrics,
            store.batches.recent(stream, _MAX_BATCHES),
            sizes,
            store.batches.rejected_rows(_MAX_REJECTED),
            disk,
            shutil.disk_usage(location.work_dir).free if location.work_dir.is_dir() else None,
            store.shed_totals.read(),
            status_webhooks.read_webhooks(store),
            load_correlation_metrics(location.work_dir / FOLDER),
        )


def to_dict(status: StreamStatus) -> dict[str, Any]:
    """Return plain values. The keys are part of the interface."""
    metrics = status.metrics
    return {
        "condition": status.health.condition.value,
        "sentence": status.health.sentence,
        "state": status.location.display_name,
        "work_dir": str(status.location.work_dir),
        "metrics": None if metrics is None else asdict(metrics),
        "bookkeeping_share": None if metrics is None else bookkeeping_share(metrics.durations_ms),
        "batches": [asdict(batch) for batch in status.batches],
        "stored": asdict(status.sizes),
        "rejected": [row._asdict() for row in status.rejected],
        "shed": {
            "posts": sum(status.shed.matchers.values()),
            "matchers": {str(matcher): count for matcher, count in sorted(status.shed.matchers.items())},
            "owners": dict(status.shed.owners),
        },
        "webhooks": status_webhooks.to_dict(status.webhooks),
        "correlations": None if status.correlations is None else asdict(status.correlations),
        "disk_bytes": status.disk_bytes,
        "disk_free_bytes": status.free_bytes,
    }


def to_table(status: StreamStatus) -> RenderableType:
    """Return the status for a screen: stream, store, tables of batches, matchers, webhooks, rejected rows."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in [*_stream_rows(status), *_store_rows(status)]:
        grid.add_row(name, value if isinstance(value, Text) else Text(value))
    failing = _table(
        "failing webhooks", status_webhooks.COLUMNS, status_webhooks.failing_rows(status.webhooks), justify="left"
    )
    tables = [_batches(status.batches), _matchers(status.metrics), failing, _rejected_table(status.rejected)]
    return Group(grid, *(table for table in tables if table is not None))


def _stream_rows(status: StreamStatus) -> Iterable[tuple[str, Text | str]]:
    """Yield the rows about the stream, from its latest metrics."""
    yield "stream", Text(to_line(status.health.sentence, 500), _STYLES.get(status.health.condition, "yellow"))
    metrics = status.metrics
    if metrics is None:
        yield "", f"start it with: tidings run --posts SOURCE{status.location.option}"
        return
    yield "source", to_line(metrics.source, 500)
    yield "since start", f"{metrics.posts:,} posts, {metrics.matches:,} matches, {metrics.rejected:,} rejected rows"
    yield "rates", f"{metrics.posts_per_second:,.0f} posts/s processed, {metrics.arriving_per_second:,.0f} arriving"
    yield "backlog", _format_backlog(metrics)
    yield "last batch", _format_last_batch(metrics)
    index = f"version {metrics.index_version}, segments {metrics.segments:,}, subscriptions {metrics.subscriptions:,}"
    waiting = f", {metrics.waiting_subscriptions:,} more being compiled" if metrics.waiting_subscriptions else ""
    yield "index", index + waiting
    yield "plan", format_plan(metrics)
    yield from rebalance_rows(metrics)
    yield from shed_rows(metrics, status.shed)
    yield from correlation_rows(status.correlations)


def _format_backlog(metrics: StreamSnapshot) -> str:
    counts = ((metrics.pending_posts, "posts"), (metrics.pending_files, "files"))
    known = [f"{count:,} {what}" for count, what in counts if count is not None]
    return " in ".join(known) or "unknown"


def _format_last_batch(metrics: StreamSnapshot) -> str:
    if metrics.batch < 0:
        return "none yet"
    parts = sorted(metrics.durations_ms.items(), key=lambda part: -part[1])
    spent = ", ".join(f"{name} {taken:,} ms" for name, taken in parts if taken and name != "triggerExecution")
    share = bookkeeping_share(metrics.durations_ms)
    own = "" if share is None else f", {share:.0%} of it overhead of Spark"
    return f"number {metrics.batch}, {metrics.batch_seconds:.2f} s{own}" + (f" ({spent})" if spent else "")


def _store_rows(status: StreamStatus) -> Iterable[tuple[str, Text | str]]:
    sizes = status.sizes
    yield "state", status.location.display_name
    yield "stored", f"{sizes.subscriptions:,} subscriptions, {sizes.matches:,} matches of {sizes.posts:,} posts"
    if sizes.rejected:
        yield "", Text(f"{sizes.rejected:,} rejected rows", "yellow")
    yield from status_webhooks.summary_rows(status.webhooks)
    used = ", ".join(f"{what} {_format_bytes(size)}" for what, size in status.disk_bytes.items())
    yield "disk", used + ("" if status.free_bytes is None else f"; {_format_bytes(status.free_bytes)} free")


def _batches(batches: list[BatchRecord]) -> Table | None:
    rows = []
    for batch in batches:
        taken = "not finished" if batch.finished_at is None else f"{batch.finished_at - batch.started_at:.2f} s"
        counts = (batch.batch, batch.posts, batch.matches, batch.rejected, batch.index_version)
        rows.append((*(f"{count:,}" for count in counts), taken))
    return _table("last batches", ("batch", "posts", "matches", "rejected", "index version", "time"), rows)


def _matchers(metrics: StreamSnapshot | None) -> Table | None:
    """Return the load of each matcher since the start, and its share of the last batch."""
    if metrics is None:
        return None
    last = {load.matcher: load for load in metrics.batch_matchers}
    whole = sum(load.seconds for load in metrics.batch_matchers) or 1.0
    rows = [
        (
            "all workers" if metrics.execution_mode == "replicated" else f"{load.matcher}",
            f"{load.posts:,}",
            f"{load.matches:,}",
            *((f"{load.shed:,}",) if metrics.shed != "off" else ()),
            _format_seconds(load.seconds),
            *_format_last_share(last.get(load.matcher), whole),
        )
        for load in metrics.matchers
    ]
    shed = ("shed",) if metrics.shed != "off" else ()
    names = ("matcher", "posts", "matches", *shed, "CPU", "last batch: posts", "CPU", "share")
    return _table(_matchers_title(metrics), names, rows)


def _matchers_title(metrics: StreamSnapshot) -> str:
    if metrics.execution_mode == "replicated":
        return "matchers: the index is replicated"
    ratio = imbalance(metrics.batch_matchers)
    return "matchers" + ("" if ratio is None else f": load of the busiest in the last batch {ratio:.2f} × the mean")


def _format_last_share(load: MatcherLoad | None, whole: float) -> tuple[str, str, str]:
    if load is None:
        return "-", "-", "-"
    return f"{load.posts:,}", _format_seconds(load.seconds), f"{load.seconds / whole:.0%}"


def _format_seconds(seconds: float) -> str:
    return f"{seconds:,.1f} s" if seconds >= 1 else f"{seconds * 1000:,.0f} ms"


def _rejected_table(rejected: list[RejectedRow]) -> Table | None:
    rows = [
        (_format_source(row), to_line(row.reason, _REASON_CELLS), to_line(row.excerpt or "", _EXCERPT_CELLS))
        for row in rejected
    ]
    return _table("last rejected rows", ("source", "reason", "excerpt"), rows, justify="left")


def _format_source(row: RejectedRow) -> str:
    """Return file and line; of a long path the end, which has the name. Parquet has rows instead of lines."""
    source = row.source or "-"
    if len(source) > _EXCERPT_CELLS:
        source = f"…{source[-_EXCERPT_CELLS:]}"
    unit = "row" if source.endswith((".parquet", ".pq")) else "line"
    return to_line(source, 2 * _EXCERPT_CELLS) + ("" if row.source_row is None else f", {unit} {row.source_row:,}")


def _table(title: str, names: tuple[str, ...], rows: Sequence[tuple[str, ...]], justify: str = "right") -> Table | None:
    if not rows:
        return None
    table = Table(title=f"\n{title}", title_justify="left", title_style="bold", box=None, pad_edge=False)
    for name in names:
        table.add_column(name, justify=justify, header_style="dim", overflow="fold")  # type: ignore[arg-type]
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def _format_bytes(size: float) -> str:
    for unit in ("bytes", "KB", "MB", "GB"):
        if size < 1000:
            return f"{size:,.0f} {unit}" if unit == "bytes" else f"{size:,.1f} {unit}"
        size /= 1000
    return f"{size:,.1f} TB"
