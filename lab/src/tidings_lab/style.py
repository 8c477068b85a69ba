"""Colours and matplotlib settings of all figures."""

from __future__ import annotations

from typing import Any

INK, QUIET, OURS, FLOOR = "#1f2933", "#7b8794", "#0b7285", "#ced4da"
OTHERS = "#9aa5b1"
STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": QUIET,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "svg.hashsalt": "tidings",
}


def load_pyplot() -> Any:
    """Return matplotlib.pyplot with a backend that draws into files."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    return plt
