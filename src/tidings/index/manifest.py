"""A manifest describes one version of an index: its files and how they belong together."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tidings.errors import IndexDamaged
from tidings.index.files import FileRecord, load_json, save_json

FORMAT = "tidings-index"
FORMAT_VERSION = 12


@dataclass(frozen=True, slots=True)
class SegmentRecord:
    """A segment in this version: its folder, and the file that lists the subscriptions removed from it."""

    folder: str
    removed: str | None = None
    subscriptions: int = 0
    removed_count: int = 0
    by_previous_plan: bool = False  # placed by the previous plan, which is still in use next to the current one


@dataclass(frozen=True, slots=True)
class PlanRecord:
    """How conjunctions are assigned to shards, so that later ones are assigned in the same way."""

    algorithm: str
    matchers: int
    seed: int
    placer: str = "anchor"
    word_file: str = ""  # the word plan; terms are hashed if there is no file
    spatial_file: str = ""  # the spatial plan, if not terms alone decide
    previous_file: str = ""  # the previous spatial plan, while subscriptions are left that it placed
    version: int = 1  # increases with every plan that is learned for this index
    origin: str = ""  # identifies the plan file that the index started with, if there was one

    def is_compatible_with(self, requested: PlanRecord) -> bool:
        """Return whether an index with this plan serves the request: same kind, learned already or not yet."""
        kind = (self.matchers, self.seed, self.placer, self.origin)
        same = kind == (requested.matchers, requested.seed, requested.placer, requested.origin)
        return same and self.algorithm in ("hash", requested.algorithm)


Content = tuple[tuple[str, int, str], ...]  # the name, size and checksum of every file of a folder


@dataclass(frozen=True, slots=True)
class Manifest:
    """Shard i consists of the segments `shards[i]`, oldest first; a replicated index has one shard and no plan."""

    version: int
    id_schema: str  # the Arrow type of the subscriptions' ids: a serialized schema in hexadecimal
    terms: int
    phrases: bool  # whether posts must be analyzed with their gaps
    regions: bool  # whether positions of posts matter
    shared: bool  # whether a subscription may be in several shards, so that matches must be deduplicated
    subscriptions: int
    layers: tuple[str, ...]
    shards: tuple[tuple[SegmentRecord, ...], ...]
    plan: PlanRecord | None
    files: dict[str, FileRecord]
    statistics: str = ""  # the folder with the posts per term; none if no posts were counted
    log_position: int = 0  # the last change of the store's log that is included

    def contents(self) -> dict[str, Content]:
        """Return for every folder of the version its content; folders with equal content have equal files."""
        files: dict[str, list[tuple[str, int, str]]] = {}
        for path, record in self.files.items():
            folder, _, name = path.partition("/")
            files.setdefault(folder, []).append((name, record.size_bytes, record.checksum))
        return {folder: tuple(sorted(content)) for folder, content in files.items()}


def manifest_path(folder: Path, version: int) -> Path:
    return folder / f"manifest-{version:08d}.json"


def newest_version(folder: Path) -> int:
    """Return the number of the newest manifest; IndexDamaged if there is no manifest."""
    numbers = list_versions(folder)
    if not numbers:
        raise IndexDamaged(folder, "there is no index in this directory. Build one first.")
    return numbers[-1]


def list_versions(folder: Path) -> list[int]:
    """Return the published versions, ascending."""
    return [_version_of(path) for path in sorted(folder.glob("manifest-*.json"))]


def _version_of(path: Path) -> int:
    digits = path.stem.removeprefix("manifest-")
    if not digits.isdigit():
        raise IndexDamaged(path, "not a manifest of an index. Remove this file.")
    return int(digits)


def save_manifest(folder: Path, manifest: Manifest) -> None:
    """Publish a version: it is visible from now on."""
    save_json(manifest_path(folder, manifest.version), to_dict(manifest))


def to_dict(manifest: Manifest) -> dict[str, Any]:
    """Return the content of the file of a manifest."""
    return {"format": FORMAT, "format_version": FORMAT_VERSION, **asdict(manifest)}


def load_manifest(folder: Path, version: int) -> Manifest:
    """Return a manifest; IndexDamaged names a file that is missing, damaged or of another format."""
    path = manifest_path(folder, version)
    body = load_json(path)
    if body.get("format") != FORMAT:
        raise IndexDamaged(path, "not a manifest of a Tidings index. Build the index again.")
    if body.get("format_version") != FORMAT_VERSION:
        found = body.get("format_version")
        raise IndexDamaged(path, f"has format {found}, but format {FORMAT_VERSION} is needed. Build the index again.")
    try:
        return from_dict(body)
    except (KeyError, TypeError, AttributeError) as error:
        raise IndexDamaged(path, "a field is missing or invalid. Build the index again.") from error


def has_older_format(folder: Path, version: int) -> bool:
    """Return whether an earlier release of Tidings wrote this version; IndexDamaged if it cannot be read."""
    body = load_json(manifest_path(folder, version))
    number = body.get("format_version")
    return body.get("format") == FORMAT and isinstance(number, int) and number < FORMAT_VERSION


def from_dict(body: dict[str, Any]) -> Manifest:
    """Return the manifest of the content of its file; KeyError, TypeError or AttributeError if it is invalid."""
    return Manifest(
        version=body["version"],
        id_schema=body["id_schema"],
        terms=body["terms"],
        phrases=body["phrases"],
        regions=body["regions"],
        shared=body["shared"],
        subscriptions=body["subscriptions"],
        layers=tuple(body["layers"]),
        shards=tuple(tuple(SegmentRecord(**segment) for segment in shard) for shard in body["shards"]),
        plan=None if body["plan"] is None else PlanRecord(**body["plan"]),
        files={name: FileRecord(**record) for name, record in body["files"].items()},
        statistics=body["statistics"],
        log_position=body["log_position"],
    )
