"""The coefficients of a stream on disk: one file per batch that completed windows, with retention."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tidings.correlate import wire
from tidings.correlate.settings import CorrelationSettings
from tidings.correlate.state_pages import StatePage
from tidings.correlate.tag_vocabulary import TagVocabulary
from tidings.correlate.tracker import Reports, choose_reports
from tidings.errors import InputError

_SETTINGS = "settings.json"
_RENAMED = {  # settings of streams that were started by version 0.1
    "sightings": "min_sightings",
    "checked_every": "check_every",
    "posts_a_partition": "posts_per_partition",
}
_FILE = re.compile(r"windows-\d{10}-(-?\d+)\.parquet")  # the batch, and the last slide whose window is in it


@dataclass(frozen=True, slots=True)
class WindowFiles:
    """A folder of Parquet files that are written atomically; a batch that runs again replaces its file."""

    folder: Path
    settings: CorrelationSettings
    max_windows: int  # the newest ones are kept

    def write(self, batch: int, pages: Iterable[StatePage]) -> tuple[int, int | None]:
        """Write one coefficient per window and tag set. Return their number and the end of the last window (µs)."""
        reports, names = merge_reports(pages)
        for earlier in self.folder.glob(f"windows-{batch:010d}-*.parquet"):
            earlier.unlink()
        if not len(reports):
            return 0, None
        last = int(reports.ends.max())
        name = f"windows-{batch:010d}-{last}.parquet"
        self.folder.mkdir(parents=True, exist_ok=True)
        rows = wire.to_record_batch(reports, names, self.settings.slide_us, self.settings.panes)
        pq.write_table(pa.Table.from_batches([rows]), self.folder / f".{name}")
        os.replace(self.folder / f".{name}", self.folder / name)
        self._delete_until(last - self.max_windows)
        return len(reports), last * self.settings.slide_us

    def _delete_until(self, until: int) -> None:
        """Delete files all of whose windows ended by slide `until`."""
        for file in self.folder.glob("windows-*.parquet"):
            if (parts := _FILE.fullmatch(file.name)) and int(parts[1]) <= until:
                file.unlink(missing_ok=True)

    def clear(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def save_settings(folder: Path, settings: CorrelationSettings) -> None:
    (folder / _SETTINGS).write_text(json.dumps(asdict(settings)), "utf-8")


def check_settings(folder: Path, settings: CorrelationSettings) -> None:
    """Raise InputError if the state in this folder was started with other settings."""
    file, now = folder / _SETTINGS, asdict(settings)
    stored = json.loads(file.read_text("utf-8")) if file.is_file() else now
    before = {_RENAMED.get(name, name): value for name, value in stored.items()}
    if other := [name for name in now if before.get(name) != now[name]]:
        names = ", ".join(f"{name.removesuffix('_us')} {before.get(name)} → {now[name]}" for name in other)
        raise InputError(
            f"{folder}: started with other settings ({names}). Use the same settings, or delete it to start again."
        )


def merge_reports(pages: Iterable[StatePage]) -> tuple[Reports, pa.Array]:
    """Return the reports that the tracker chooses from those of all calculators, and the names of the tags."""
    vocabulary, parts = TagVocabulary(), []
    for page in pages:
        reports = wire.unpack_reports(pa.py_buffer(page.blob))
        counted = reports.counted
        tags = vocabulary.renumber_rows(page.names, counted.tags, counted.starts)
        parts.append(Reports(reports.ends, reports.calculators, replace(counted, tags=tags)))
    return choose_reports(Reports.concat(parts)), vocabulary.to_arrow()
