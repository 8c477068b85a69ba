"""`tidings status`: how the stream of a state is doing, from outside, whether it runs or not."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tidings.cli import status_webhooks
from tidings.cli.console import screen
from tidings.cli.options.state import DEFAULT_STATE, State, StateOption, WorkOption, state_at
from tidings.cli.output import closable, emit, one_line, safe_json
from tidings.cli.status_correlations import correlating
from tidings.cli.status_plan import adjusting, planned, shedding
from tidings.cli.status_webhooks import Hooks
from tidings.matching.load import MatcherLoad, imbalance
from tidings.stream.metrics.correlations import FOLDER, CorrelationFigures, load_correlations
from tidings.stream.metrics.health import Condition, Health, bookkeeping_share, health
from tidings.stream.metrics.snapshot import StreamFigures, load_figures

if TYPE_CHECKING:
    from tidings.store import ShedCounts
    from tidings.store.rows import Batch, Rejected, Sizes

HELP = """Show how the stream is doing: whether it runs, rates, lag, batches, index, matchers, webhooks, rejected rows,
disk use.

It looks from outside and disturbs nothing, so it can be asked at any time and as often as you like."""
EXAMPLES = """[bold]Examples[/]

tidings status

tidings status --json | jq .condition

watch tidings status --state /srv/tidings"""
_BATCHES, _REJECTED = 5, 5
_STYLES = {Condition.running: "bold green", Condition.failed: "bold red", Condition.gone: "bold red"}
_REASON_CELLS, _EXCERPT_CELLS = 80, 60


@dataclass(frozen=True, slots=True)
class Status:
    """All that is known of a stream at one moment."""

    place: State
    health: Health
    figures: StreamFigures | None
    batches: list[Batch]
    sizes: Sizes
    rejected: list[Rejected]
    disk_bytes: dict[str, int]
    free_bytes: int | None
    shed: ShedCounts
    hooks: Hooks
    correlations: CorrelationFigures | None


def status(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    state: StateOption = DEFAULT_STATE,
    work: WorkOption = None,
) -> None:
    """Look and print."""
    told = look(state_at(state, work))
    with closable():
        if as_json:
            print(safe_json(as_dict(told)))
        else:
            emit(screen(), as_table(told), soft_wrap=False)


def look(place: State) -> Status:
    """Everything from the store and the figures beside it."""
    with place.open() as store:
        figures = load_figures(place.folder)
        stream = figures.stream or None if figures is not None else None  # it has no name before its first batch
        sizes = store.sizes()
        disk = {**(figures.disk_bytes if figures is not None else {}), "store": sizes.bytes}
        return Status(
            place,
            health(figures, time.time()),
            figures,
            store.ledger(stream, _BATCHES),
            sizes,
            store.rejected(_REJECTED),
            disk,
            shutil.disk_usage(place.folder).free if place.folder.is_dir() else None,
            store.withheld(),
            status_webhooks.look(store),
            load_correlations(place.folder / FOLDER),
        )


def as_dict(told: Status) -> dict[str, Any]:
    """As plain values; the keys are a promise."""
    figures = told.figures
    return {
        "condition": told.health.condition.value,
        "sentence": told.health.sentence,
        "state": told.place.shown,
        "work": str(told.place.folder),
        "figures": None if figures is None else asdict(figures),
        "bookkeeping_share": None if figures is None else bookkeeping_share(figures.durations_ms),
        "batches": [asdict(batch) for batch in told.batches],
        "stored": asdict(told.sizes),
        "rejected": [one._asdict() for one in told.rejected],
        "withheld": {
            "posts": sum(told.shed.matchers.values()),
            "matchers": {str(matcher): count for matcher, count in sorted(told.shed.matchers.items())},
            "owners": dict(told.shed.owners),
        },
        "webhooks": status_webhooks.as_dict(told.hooks),
        "correlations": None if told.correlations is None else asdict(told.correlations),
        "disk_bytes": told.disk_bytes,
        "disk_free_bytes": told.free_bytes,
    }


def as_table(told: Status) -> RenderableType:
    """For a screen: the stream, what is stored, and tables of batches, matchers, rejected rows."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in [*_stream(told), *_stored(told)]:
        grid.add_row(name, value if isinstance(value, Text) else Text(value))
    troubled = _table("webhooks in trouble", status_webhooks.TROUBLED, status_webhooks.rows(told.hooks), justify="left")
    tables = [_batches(told.batches), _matchers(told.figures), troubled, _rejected(told.rejected)]
    return Group(grid, *(table for table in tables if table is not None))


def _stream(told: Status) -> Iterable[tuple[str, Text | str]]:
    """What the figures say, and whether they still hold."""
    yield "stream", Text(one_line(told.health.sentence, 500), _STYLES.get(told.health.condition, "yellow"))
    figures = told.figures
    if figures is None:
        yield "", f"begin with: tidings run --posts SOURCE{told.place.option}"
        return
    yield "source", one_line(figures.source, 500)
    yield "since start", f"{figures.posts:,} posts, {figures.matches:,} matches, {figures.rejected:,} rejected rows"
    yield "rates", f"{figures.posts_per_second:,.0f} posts/s worked off, {figures.arriving_per_second:,.0f} arriving"
    yield "waiting", _waiting(figures)
    yield "last batch", _last_batch(figures)
    index = f"version {figures.index_version}, segments {figures.segments:,}, subscriptions {figures.subscriptions:,}"
    yield "index", index
    yield "plan", planned(figures)
    yield from adjusting(figures)
    yield from shedding(figures, told.shed)
    yield from correlating(told.correlations)


def _waiting(figures: StreamFigures) -> str:
    counts = ((figures.waiting_posts, "posts"), (figures.waiting_files, "files"))
    known = [f"{count:,} {what}" for count, what in counts if count is not None]
    return " in ".join(known) or "the source cannot tell"


def _last_batch(figures: StreamFigures) -> str:
    if figures.batch < 0:
        return "none yet"
    parts = sorted(figures.durations_ms.items(), key=lambda part: -part[1])
    spent = ", ".join(f"{name} {taken:,} ms" for name, taken in parts if taken and name != "triggerExecution")
    share = bookkeeping_share(figures.durations_ms)
    own = "" if share is None else f", {share:.0%} of it Spark's own bookkeeping"
    return f"number {figures.batch}, {figures.batch_seconds:.2f} s{own}" + (f" ({spent})" if spent else "")


def _stored(told: Status) -> Iterable[tuple[str, Text | str]]:
    sizes = told.sizes
    yield "state", told.place.shown
    yield "stored", f"{sizes.subscriptions:,} subscriptions, {sizes.matches:,} matches of {sizes.posts:,} posts"
    if sizes.rejected:
        yield "", Text(f"{sizes.rejected:,} rejected rows", "yellow")
    yield from status_webhooks.lines(told.hooks)
    used = ", ".join(f"{what} {_size(size)}" for what, size in told.disk_bytes.items())
    yield "disk", used + ("" if told.free_bytes is None else f"; {_size(told.free_bytes)} free")


def _batches(batches: list[Batch]) -> Table | None:
    rows = []
    for batch in batches:
        taken = "not done" if batch.finished_at is None else f"{batch.finished_at - batch.started_at:.2f} s"
        counts = (batch.batch, batch.posts, batch.matches, batch.rejected, batch.index_version)
        rows.append((*(f"{count:,}" for count in counts), taken))
    return _table("last batches", ("batch", "posts", "matches", "rejected", "index version", "time"), rows)


def _matchers(figures: StreamFigures | None) -> Table | None:
    """The load of each since the start, and what share of the last batch's it took."""
    if figures is None:
        return None
    last = {load.matcher: load for load in figures.batch_matchers}
    whole = sum(load.seconds for load in figures.batch_matchers) or 1.0
    rows = [
        (
            "all workers" if figures.plan == "replicated" else f"{load.matcher}",
            f"{load.posts:,}",
            f"{load.matches:,}",
            *((f"{load.withheld:,}",) if figures.shed != "off" else ()),
            _time(load.seconds),
            *_last_share(last.get(load.matcher), whole),
        )
        for load in figures.matchers
    ]
    spared = ("withheld",) if figures.shed != "off" else ()
    names = ("matcher", "posts", "matches", *spared, "processor", "last batch: posts", "processor", "share")
    return _table(_matchers_title(figures), names, rows)


def _matchers_title(figures: StreamFigures) -> str:
    if figures.plan == "replicated":
        return "matchers: every worker holds the whole index"
    ratio = imbalance(figures.batch_matchers)
    return "matchers" + ("" if ratio is None else f": in the last batch the busiest took {ratio:.2f} times the mean")


def _last_share(load: MatcherLoad | None, whole: float) -> tuple[str, str, str]:
    if load is None:
        return "-", "-", "-"
    return f"{load.posts:,}", _time(load.seconds), f"{load.seconds / whole:.0%}"


def _time(seconds: float) -> str:
    return f"{seconds:,.1f} s" if seconds >= 1 else f"{seconds * 1000:,.0f} ms"


def _rejected(rejected: list[Rejected]) -> Table | None:
    rows = []
    for one in rejected:
        source = one_line(one.source or "-", _EXCERPT_CELLS) + (
            "" if one.source_row is None else f", row {one.source_row}"
        )
        rows.append((source, one_line(one.reason, _REASON_CELLS), one_line(one.excerpt or "", _EXCERPT_CELLS)))
    return _table("rejected last", ("from", "reason", "beginning"), rows, justify="left")


def _table(title: str, names: tuple[str, ...], rows: Sequence[tuple[str, ...]], justify: str = "right") -> Table | None:
    if not rows:
        return None
    table = Table(title=f"\n{title}", title_justify="left", title_style="bold", box=None, pad_edge=False)
    for name in names:
        table.add_column(name, justify=justify, header_style="dim", overflow="fold")  # type: ignore[arg-type]
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def _size(size: float) -> str:
    for unit in ("bytes", "KB", "MB", "GB"):
        if size < 1000:
            return f"{size:,.0f} {unit}" if unit == "bytes" else f"{size:,.1f} {unit}"
        size /= 1000
    return f"{size:,.1f} TB"
