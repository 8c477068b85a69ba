"""The tables of `tidings provision`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.table import Table

from tidings.cli.console import screen
from tidings.provision.answer import ProvisioningReport, TalkComparison
from tidings.provision.costs import ABOUT, NAMES, Calibration
from tidings.provision.greedy import ScalingStep
from tidings.provision.model import CONSTRAINTS, SERVICES, Service, Topology

_NAMES = dict(zip(CONSTRAINTS, ("bandwidth in", "bandwidth out", "cores", "memory"), strict=True))
_MAX_STEPS = 8


def print_report(report: ProvisioningReport, calibration: Calibration, changes: Mapping[str, float]) -> None:
    """Print the topology, the steps that led to it, the commands to start, and the costs."""
    console, result, demand = screen(), report.result, report.demand
    nodes = result.topology
    console.print(
        f"[bold]{nodes.nodes:,} machines[/] for {demand.subscriptions:,} subscriptions and {demand.feeds:,} feeds "
        f"({demand.articles_s:,.1f} articles/s): {_format_count(nodes.crawler, 'crawler')}, "
        f"{_format_count(nodes.filter, 'filter')} ({result.plan}), {_format_count(nodes.reflector, 'reflector')}"
    )
    console.print(_load_table(report))
    _print_steps(result.steps)
    console.print("\n[bold]Workloads of the Cobra talk[/] on these machines (crawlers + filters + reflectors)")
    console.print(_talk_table(report.table))
    console.print("\n[bold]What to start[/]")
    for role in report.roles:
        console.print(f"{role.machines:,} × {role.service}: {role.command}", markup=False)
        console.print(f"    {role.note}", markup=False, style="dim")
        for name, value in role.spark.items():
            console.print(f"    {name:<34}{value}", markup=False)
    console.print("\n[bold]Costs used[/]")
    _print_costs(calibration, changes)


def _print_costs(calibration: Calibration, changes: Mapping[str, float]) -> None:
    """Print every cost and how it was measured."""
    origin = calibration.origin
    dirty = " with uncommitted changes" if origin.get("dirty") else ""
    when, commit = str(origin.get("started", "?"))[:10], str(origin.get("commit", "?"))[:10]
    machine = origin.get("host", {}).get("cpu", "?")
    screen().print(f"measured {when} at commit {commit}{dirty} on {machine}", markup=False, style="dim")
    table = Table("cost", "value", "of", "how", box=None, padding=(0, 2, 0, 0))
    table.columns[1].justify = "right"
    for name in NAMES:
        value = changes.get(name, getattr(calibration.costs, name))
        how = "given by --cost" if name in changes else calibration.how.get(name, "")
        table.add_row(name, _format_cost(name, value), ABOUT[name], how)
    screen().print(table)


def _format_count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _load_table(report: ProvisioningReport) -> Table:
    table = Table("machine of", *(_NAMES[name] for name in CONSTRAINTS), box=None, padding=(0, 3, 0, 0))
    for service in SERVICES:
        table.add_row(service, *(_format_used(report, service, name) for name in CONSTRAINTS))
    table.add_row(
        "[dim]limit[/]",
        *(f"[dim]{_format_quantity(name, getattr(report.result.limits, name))}[/]" for name in CONSTRAINTS),
    )
    return table


def _format_used(report: ProvisioningReport, service: Service, name: str) -> str:
    left = report.result.headroom(service, name)
    colour = "red" if left < 0.05 else "yellow" if left < 0.25 else "green"
    used = _format_quantity(name, getattr(report.result.loads[service], name))
    return f"{used} [{colour}]({left:.0%} left)[/]"


def _print_steps(steps: Sequence[ScalingStep]) -> None:
    for step in steps[:_MAX_STEPS]:
        violation = step.violation
        used, limit = (_format_quantity(violation.constraint, value) for value in (violation.used, violation.limit))
        what = _NAMES[violation.constraint]
        screen().print(f"  {violation.service} {step.before} → {step.after}: {what} {used} of {limit}", markup=False)
    if len(steps) > _MAX_STEPS:
        screen().print(f"  … and {len(steps) - _MAX_STEPS:,} more steps (--json prints all)", markup=False)


def _talk_table(rows: Sequence[TalkComparison]) -> Table:
    table = Table(box=None, padding=(0, 3, 0, 0))
    for name in ("subscriptions", "feeds", "talk", "Tidings", "Tidings, broadcast as in the talk"):
        table.add_column(name, justify="right")
    for row in rows:
        ours = _format_topology(row.ours) + (f" {row.ours_plan}" if row.ours is not None else "")
        table.add_row(
            f"{row.subscriptions:,}",
            f"{row.feeds:,}",
            _format_topology(row.talk),
            ours,
            _format_topology(row.broadcast),
        )
    return table


def _format_topology(topology: Topology | None) -> str:
    if topology is None:
        return "not possible"
    return f"{topology.nodes:,} = {topology.crawler:,} + {topology.filter:,} + {topology.reflector:,}"


def _format_quantity(constraint: str, value: float) -> str:
    """Format a quantity with its unit."""
    if constraint == "cores":
        return f"{value:.2g}"
    unit = "B" if constraint == "memory_bytes" else "bps"
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g} {letter}{unit}"
    return f"{value:.0f} {unit}"


def _format_cost(name: str, value: float) -> str:
    if name.endswith("_cpu_s"):
        for size, unit in ((1e-3, "ms"), (1e-6, "µs")):
            if value >= size:
                return f"{value / size:.3g} {unit}"
        return f"{value * 1e9:.3g} ns"
    return f"{value:,.0f} B" if name.endswith("_bytes") else f"{value:.3g}"
