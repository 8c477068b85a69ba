"""A topology as a picture: a column of machines for each service, and how full each of them is."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from tidings.provision.greedy import Provisioned
from tidings.provision.model import CONSTRAINTS, SERVICES, Service

_WIDTH, _BOX, _HIGH, _GAP, _TOP = 860, 200, 92, 16, 84
_SHOWN = 5  # machines of a column; of more, the rest is a number
_LEFT = {"crawler": 30, "filter": 330, "reflector": 630}
_LABELS = dict(zip(CONSTRAINTS, ("in", "out", "cpu", "memory"), strict=True))
_CALM, _BUSY, _FULL, _INK, _QUIET, _LINE = "#0b7285", "#e8590c", "#c92a2a", "#1f2933", "#7b8794", "#ced4da"


def draw(found: Provisioned, title: str) -> str:
    """An SVG document."""
    rows = max(min(_SHOWN, getattr(found.topology, service)) for service in SERVICES)
    more = any(getattr(found.topology, service) > _SHOWN for service in SERVICES)
    height = _TOP + rows * (_HIGH + _GAP) + (24 if more else 0) + 12
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        f'font-family="DejaVu Sans, Helvetica, sans-serif" font-size="12" fill="{_INK}">'
    )
    parts = [head, f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>', _text(30, 28, title, 16, _INK)]
    parts += _links(found, "crawler", "filter")
    parts += _links(found, "filter", "reflector")
    for service in SERVICES:
        parts += _column(found, service)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _column(found: Provisioned, service: Service) -> Iterator[str]:
    count, left = getattr(found.topology, service), _LEFT[service]
    yield _text(left, _TOP - 14, f"{count:,} {service}{'' if count == 1 else 's'}", 14, _INK)
    for row in range(min(_SHOWN, count)):
        yield from _machine(found, service, left, _TOP + row * (_HIGH + _GAP))
    if count > _SHOWN:
        below = _TOP + _SHOWN * (_HIGH + _GAP) + 8
        yield _text(left, below, f"… and {count - _SHOWN:,} more like these", 12, _QUIET)


def _machine(found: Provisioned, service: Service, left: int, top: int) -> Iterator[str]:
    yield f'<rect x="{left}" y="{top}" width="{_BOX}" height="{_HIGH}" rx="6" fill="#f8f9fa" stroke="{_LINE}"/>'
    for place, constraint in enumerate(CONSTRAINTS):
        used = 1 - found.headroom(service, constraint)
        y, bar = top + 22 + place * 20, 84
        colour = _FULL if used > 0.95 else _BUSY if used > 0.75 else _CALM
        yield _text(left + 10, y, _LABELS[constraint], 12, _INK)
        yield f'<rect x="{left + 62}" y="{y - 9}" width="{bar}" height="9" rx="2" fill="#e9ecef"/>'
        wide = max(1.0, bar * min(1.0, used))
        yield f'<rect x="{left + 62}" y="{y - 9}" width="{wide:.1f}" height="9" rx="2" fill="{colour}"/>'
        yield _text(left + 154, y, f"{used:.0%}", 12, _QUIET)


def _links(found: Provisioned, source: Service, target: Service) -> Iterator[str]:
    """A line from every machine shown to every other: who talks with whom."""
    begin, end = _LEFT[source] + _BOX, _LEFT[target]
    for one in range(min(_SHOWN, getattr(found.topology, source))):
        for other in range(min(_SHOWN, getattr(found.topology, target))):
            y1, y2 = (_TOP + row * (_HIGH + _GAP) + _HIGH // 2 for row in (one, other))
            middle = (begin + end) // 2
            path = f"M{begin},{y1} C{middle},{y1} {middle},{y2} {end},{y2}"
            yield f'<path d="{path}" fill="none" stroke="{_LINE}" stroke-width="1.2"/>'


def _text(x: int, y: int, said: str, size: int, colour: str) -> str:
    return f'<text x="{x}" y="{y}" font-size="{size}" fill="{colour}">{escape(said)}</text>'
