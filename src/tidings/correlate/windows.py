"""The coefficients of a stream on disk: a file for each batch that completed windows, as long as they are kept."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tidings.correlate import wire
from tidings.correlate.settings import Settings
from tidings.correlate.state_pages import Page
from tidings.correlate.tag_vocabulary import Vocabulary
from tidings.correlate.tracker import Reports, tracked
from tidings.errors import InputError

_SETTINGS = "settings.json"
_FILE = re.compile(r"windows-\d{10}-(-?\d+)\.parquet")  # the batch, and the last slide whose window is in it


@dataclass(frozen=True, slots=True)
class Windows:
    """A folder of Parquet files, each put in place whole; a batch that comes again replaces its file."""

    folder: Path
    settings: Settings
    kept: int  # so many windows, the newest

    def write(self, batch: int, pages: Iterable[Page]) -> tuple[int, int | None]:
        """One coefficient for each window and set of tags; how many, and the last window's end in microseconds."""
        found, names = track(pages)
        for earlier in self.folder.glob(f"windows-{batch:010d}-*.parquet"):
            earlier.unlink()
        if not len(found):
            return 0, None
        last = int(found.ends.max())
        name = f"windows-{batch:010d}-{last}.parquet"
        self.folder.mkdir(parents=True, exist_ok=True)
        spelt = wire.spelt(found, names, self.settings.slide_us, self.settings.panes)
        pq.write_table(pa.Table.from_batches([spelt]), self.folder / f".{name}")
        os.replace(self.folder / f".{name}", self.folder / name)
        self._retain(last - self.kept)
        return len(found), last * self.settings.slide_us

    def _retain(self, until: int) -> None:
        """Forget files all of whose windows ended by slide `until`."""
        for file in self.folder.glob("windows-*.parquet"):
            if (told := _FILE.fullmatch(file.name)) and int(told[1]) <= until:
                file.unlink(missing_ok=True)

    def clear(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def keep_settings(folder: Path, settings: Settings) -> None:
    (folder / _SETTINGS).write_text(json.dumps(asdict(settings)), "utf-8")


def check_settings(folder: Path, settings: Settings) -> None:
    """InputError unless what is kept in this folder was begun with the same settings."""
    kept, now = folder / _SETTINGS, asdict(settings)
    before = json.loads(kept.read_text("utf-8")) if kept.is_file() else now
    if other := [name for name in now if before.get(name) != now[name]]:
        names = ", ".join(f"{name.removesuffix('_us')} {before.get(name)} → {now[name]}" for name in other)
        raise InputError(
            f"{folder}: these correlations were begun with other settings ({names}); give the same again, or remove "
            f"{folder} to begin anew."
        )


def track(pages: Iterable[Page]) -> tuple[Reports, pa.Array]:
    """The tracker's choice among the reports of all calculators, and the names of the tags."""
    vocabulary, parts = Vocabulary(), []
    for page in pages:
        one = wire.unpack_reports(wire.buffer(page.blob))
        counted = one.counted
        tags = vocabulary.rows(page.names, counted.tags, counted.starts)
        parts.append(
            Reports(one.ends, one.calculators, type(counted)(tags, counted.starts, counted.support, counted.union))
        )
    found = tracked(Reports.together(parts)) if parts else Reports.together([])
    return found, vocabulary.column()
