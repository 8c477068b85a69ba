"""The settings of correlation tracking, with their checks."""

from __future__ import annotations

from dataclasses import dataclass

from tidings.correlate.partition.plan import check_partitions
from tidings.correlate.partition.registry import DEFAULT_ALGORITHM, check_algorithm
from tidings.durations import parse_microseconds
from tidings.errors import InputError


@dataclass(frozen=True, slots=True)
class CorrelationSettings:
    """Times are in microseconds. A window is a whole number of slides; a report comes at every slide."""

    window_us: int
    slide_us: int
    partitions: int = 10
    partitioners: int = 5
    algorithm: str = DEFAULT_ALGORITHM
    min_sightings: int = 3  # of a tag set that no calculator owns, before it is assigned to one
    check_every: int = 1000  # notified posts between two checks of the quality of the partitions
    threshold: float = 0.5  # relative degradation of communication or largest load that triggers repartitioning
    min_support: int = 2
    catch_up: bool = True  # notify the new owner of a tag of the posts it missed; the paper does not
    posts_per_partition: int | None = None  # in a window; then only as many partitions as needed are in use
    seed: int = 0

    @property
    def panes(self) -> int:
        """Return the number of slides per window."""
        return self.window_us // self.slide_us

    @classmethod
    def parse(cls, window: str, slide: str | None = None, **others: object) -> CorrelationSettings:
        """Return the settings from the texts of options. Raises InputError for an invalid one."""
        window_us = parse_microseconds(window, "--window")
        slide_us = parse_microseconds(slide, "--slide") if slide else window_us
        if window_us % slide_us:
            raise InputError(f"--window {window!r}: must be a whole number of slides (--slide {slide!r}).")
        settings = cls(window_us, slide_us, **others)  # type: ignore[arg-type]
        settings._check()
        return settings

    def _check(self) -> None:
        check_partitions(self.partitions)
        check_algorithm(self.algorithm)
        for name in ("partitioners", "min_sightings", "check_every", "min_support", "posts_per_partition"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"--{name.replace('_', '-')} {value}: must be at least 1.")
        if not self.threshold > 0:
            raise InputError(f"--threshold {self.threshold:g}: must be greater than 0.")


@dataclass(frozen=True, slots=True)
class StreamCorrelationSettings:
    """The settings of correlation tracking in a stream."""

    settings: CorrelationSettings
    lateness_us: int
    tracked_words: tuple[str, ...] = ()
    max_windows: int = 500  # reported windows that are kept
