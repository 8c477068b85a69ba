"""Experiments and benchmarks of Tidings."""

from pathlib import Path

REPOSITORY = Path(__file__).parents[3]
