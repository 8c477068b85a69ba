"""What `tidings provision` prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.table import Table

from tidings.cli.console import screen
from tidings.provision.answer import Answer, Compared
from tidings.provision.costs import ABOUT, NAMES, Calibration
from tidings.provision.greedy import Step
from tidings.provision.model import CONSTRAINTS, SERVICES, Service, Topology

_NAMES = dict(zip(CONSTRAINTS, ("bandwidth in", "bandwidth out", "cores", "memory"), strict=True))
_SHOWN = 8  # steps


def print_answer(told: Answer, known: Calibration, changes: Mapping[str, float]) -> None:
    """The topology first, then why, then what to do, last what it rests on."""
    console, found, demand = screen(), told.found, told.demand
    nodes = found.topology
    console.print(
        f"[bold]{nodes.nodes:,} machines[/] for {demand.subscriptions:,} subscriptions and {demand.feeds:,} feeds "
        f"({demand.articles_s:,.1f} articles/s): {_counted(nodes.crawler, 'crawler')}, "
        f"{_counted(nodes.filter, 'filter')} ({found.plan}), {_counted(nodes.reflector, 'reflector')}"
    )
    console.print(_loads(told))
    _print_steps(found.steps)
    console.print("\n[bold]The talk's workloads[/] on such machines (crawlers + filters + reflectors)")
    console.print(_talk(told.table))
    console.print("\n[bold]What to start[/]")
    for role in told.roles:
        console.print(f"{role.machines:,} × {role.service}: {role.command}", markup=False)
        console.print(f"    {role.note}", markup=False, style="dim")
        for name, value in role.spark.items():
            console.print(f"    {name:<34}{value}", markup=False)
    console.print("\n[bold]What it rests on[/]")
    print_costs(known, changes)


def print_costs(known: Calibration, changes: Mapping[str, float]) -> None:
    """Every cost, and how it was found."""
    origin = known.origin
    dirty = " with uncommitted changes" if origin.get("dirty") else ""
    when, commit = str(origin.get("started", "?"))[:10], str(origin.get("commit", "?"))[:10]
    machine = origin.get("host", {}).get("cpu", "?")
    screen().print(f"measured {when} at commit {commit}{dirty} on {machine}", markup=False, style="dim")
    table = Table("cost", "value", "of", "how", box=None, padding=(0, 2, 0, 0))
    table.columns[1].justify = "right"
    for name in NAMES:
        value = changes.get(name, getattr(known.costs, name))
        how = "told by --cost" if name in changes else known.how.get(name, "")
        table.add_row(name, _number(name, value), ABOUT[name], how)
    screen().print(table)


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _loads(told: Answer) -> Table:
    table = Table("a machine of", *(_NAMES[name] for name in CONSTRAINTS), box=None, padding=(0, 3, 0, 0))
    for service in SERVICES:
        table.add_row(service, *(_used(told, service, name) for name in CONSTRAINTS))
    table.add_row(
        "[dim]may bear[/]", *(f"[dim]{quantity(name, getattr(told.found.limits, name))}[/]" for name in CONSTRAINTS)
    )
    return table


def _used(told: Answer, service: Service, name: str) -> str:
    left = told.found.headroom(service, name)
    colour = "red" if left < 0.05 else "yellow" if left < 0.25 else "green"
    used = quantity(name, getattr(told.found.loads[service], name))
    return f"{used} [{colour}]({left:.0%} left)[/]"


def _print_steps(steps: Sequence[Step]) -> None:
    for step in steps[:_SHOWN]:
        broken = step.violation
        used, limit = (quantity(broken.constraint, value) for value in (broken.used, broken.limit))
        what = _NAMES[broken.constraint]
        screen().print(f"  {broken.service} {step.before} → {step.after}: {what} {used} of {limit}", markup=False)
    if len(steps) > _SHOWN:
        screen().print(f"  … and {len(steps) - _SHOWN:,} more such steps (--json tells all)", markup=False)


def _talk(rows: Sequence[Compared]) -> Table:
    table = Table(box=None, padding=(0, 3, 0, 0))
    for name in ("subscriptions", "feeds", "the talk", "Tidings", "Tidings, broadcast as in the talk"):
        table.add_column(name, justify="right")
    for row in rows:
        ours = _topology(row.ours) + (f" {row.ours_plan}" if row.ours is not None else "")
        table.add_row(f"{row.subscriptions:,}", f"{row.feeds:,}", _topology(row.talk), ours, _topology(row.broadcast))
    return table


def _topology(one: Topology | None) -> str:
    if one is None:
        return "no number will do"
    return f"{one.nodes:,} = {one.crawler:,} + {one.filter:,} + {one.reflector:,}"


def quantity(constraint: str, value: float) -> str:
    """As people say it."""
    if constraint == "cores":
        return f"{value:.2g}"
    unit = "B" if constraint == "memory_bytes" else "bps"
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g} {letter}{unit}"
    return f"{value:.0f} {unit}"


def _number(name: str, value: float) -> str:
    if name.endswith("_cpu_s"):
        for size, unit in ((1e-3, "ms"), (1e-6, "µs")):
            if value >= size:
                return f"{value / size:.3g} {unit}"
        return f"{value * 1e9:.3g} ns"
    return f"{value:,.0f} B" if name.endswith("_bytes") else f"{value:.3g}"
