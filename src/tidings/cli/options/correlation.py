"""Options of the correlations of tags, shared by `tidings run` and `tidings correlate`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from tidings.correlate.settings import CorrelationSettings

SlideOption = Annotated[
    str | None, typer.Option(metavar="DURATION", help="Time between two reports.", show_default="the window")
]
PartitionsOption = Annotated[int, typer.Option(metavar="N", help="Maximum number of calculators.")]


@dataclass(frozen=True, slots=True)
class TrackingOptions:
    """How tag sets are assigned to calculators, and which are reported."""

    PANEL = "Correlations"

    partitioners: Annotated[int, typer.Option(metavar="N", help="Number of partitioners.")] = 5
    algorithm: Annotated[
        str, typer.Option(metavar="ds+scl|ds|scc|scl|sci", help="Algorithm that partitions the tags.")
    ] = "ds+scl"
    min_sightings: Annotated[
        int, typer.Option(metavar="N", help="Sightings before a new tag set gets a calculator.")
    ] = 3
    check_every: Annotated[int, typer.Option(metavar="N", help="Posts between two checks of the partitions.")] = 1000
    threshold: Annotated[
        float, typer.Option(metavar="SHARE", help="Relative degradation that triggers repartitioning.")
    ] = 0.5
    min_support: Annotated[int, typer.Option(metavar="N", help="Minimum posts with all tags of a reported set.")] = 2
    posts_per_partition: Annotated[
        int | None,
        typer.Option(metavar="N", help="Posts per window and partition in use.", show_default="use all partitions"),
    ] = None
    track: Annotated[
        list[str] | None,
        typer.Option(metavar="WORD", help="Count this word as a tag. Repeatable.", show_default=False),
    ] = None

    def settings(self, window: str, slide: str | None, **others: Any) -> CorrelationSettings:
        """Return the checked settings. Raises InputError."""
        from tidings.correlate.settings import CorrelationSettings

        return CorrelationSettings.parse(
            window,
            slide,
            partitioners=self.partitioners,
            algorithm=self.algorithm,
            min_sightings=self.min_sightings,
            check_every=self.check_every,
            threshold=self.threshold,
            min_support=self.min_support,
            posts_per_partition=self.posts_per_partition,
            **others,
        )

    def tracked_words(self) -> tuple[str, ...]:
        """Return the words that count as tags. Raises InputError for a word that cannot be tracked."""
        from tidings.correlate.tag_parser import TagIds

        TagIds(self.track or ())
        return tuple(self.track or ())
