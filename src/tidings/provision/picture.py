"""Draw a topology as SVG: a column of machines per service, with their utilisation."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from tidings.provision.greedy import ProvisioningResult
from tidings.provision.model import CONSTRAINTS, SERVICES, Service

_WIDTH, _BOX, _HIGH, _GAP, _TOP = 860, 200, 92, 16, 84
_MAX_MACHINES = 5  # drawn per column
_LEFT = {"crawler": 30, "filter": 330, "reflector": 630}
_LABELS = dict(zip(CONSTRAINTS, ("in", "out", "cpu", "memory"), strict=True))
_CALM, _BUSY, _FULL, _INK, _QUIET, _LINE = "#0b7285", "#e8590c", "#c92a2a", "#1f2933", "#7b8794", "#ced4da"


def draw_topology(result: ProvisioningResult, title: str) -> str:
    """Return an SVG document."""
    rows = max(min(_MAX_MACHINES, getattr(result.topology, service)) for service in SERVICES)
    more = any(getattr(result.topology, service) > _MAX_MACHINES for service in SERVICES)
    height = _TOP + rows * (_HIGH + _GAP) + (24 if more else 0) + 12
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        f'font-family="DejaVu Sans, Helvetica, sans-serif" font-size="12" fill="{_INK}">'
    )
    parts = [head, f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>', _text(30, 28, title, 16, _INK)]
    parts += _links(result, "crawler", "filter")
    parts += _links(result, "filter", "reflector")
    for service in SERVICES:
        parts += _column(result, service)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _column(result: ProvisioningResult, service: Service) -> Iterator[str]:
    count, left = getattr(result.topology, service), _LEFT[service]
    yield _text(left, _TOP - 14, f"{count:,} {service}{'' if count == 1 else 's'}", 14, _INK)
    for row in range(min(_MAX_MACHINES, count)):
        yield from _machine(result, service, left, _TOP + row * (_HIGH + _GAP))
    if count > _MAX_MACHINES:
        below = _TOP + _MAX_MACHINES * (_HIGH + _GAP) + 8
        yield _text(left, below, f"… and {count - _MAX_MACHINES:,} more", 12, _QUIET)


def _machine(result: ProvisioningResult, service: Service, left: int, top: int) -> Iterator[str]:
    yield f'<rect x="{left}" y="{top}" width="{_BOX}" height="{_HIGH}" rx="6" fill="#f8f9fa" stroke="{_LINE}"/>'
    for position, constraint in enumerate(CONSTRAINTS):
        used = 1 - result.headroom(service, constraint)
        y, bar = top + 22 + position * 20, 84
        colour = _FULL if used > 0.95 else _BUSY if used > 0.75 else _CALM
        yield _text(left + 10, y, _LABELS[constraint], 12, _INK)
        yield f'<rect x="{left + 62}" y="{y - 9}" width="{bar}" height="9" rx="2" fill="#e9ecef"/>'
        wide = max(1.0, bar * min(1.0, used))
        yield f'<rect x="{left + 62}" y="{y - 9}" width="{wide:.1f}" height="9" rx="2" fill="{colour}"/>'
        yield _text(left + 154, y, f"{used:.0%}", 12, _QUIET)


def _links(result: ProvisioningResult, source: Service, target: Service) -> Iterator[str]:
    """Yield a line between every two machines that communicate."""
    begin, end = _LEFT[source] + _BOX, _LEFT[target]
    for first in range(min(_MAX_MACHINES, getattr(result.topology, source))):
        for second in range(min(_MAX_MACHINES, getattr(result.topology, target))):
            y1, y2 = (_TOP + row * (_HIGH + _GAP) + _HIGH // 2 for row in (first, second))
            middle = (begin + end) // 2
            path = f"M{begin},{y1} C{middle},{y1} {middle},{y2} {end},{y2}"
            yield f'<path d="{path}" fill="none" stroke="{_LINE}" stroke-width="1.2"/>'


def _text(x: int, y: int, content: str, size: int, colour: str) -> str:
    return f'<text x="{x}" y="{y}" font-size="{size}" fill="{colour}">{escape(content)}</text>'
