"""Optional packages of partitioners, checked before any work is done."""

from __future__ import annotations

from tidings.extras import import_extra

_MODULES = {
    **dict.fromkeys(("gc", "gfc", "gfcl", "gnfcl"), "pymetis"),
    "rtree": "rtree",
    "hypergraph": "mtkahypar",
}


def check_installed(partitioner: str) -> None:
    """Raise MissingExtraError if a package that the partitioner needs is not installed."""
    if partitioner in _MODULES:
        import_extra(_MODULES[partitioner])
