"""A manifest is one version of an index: which files it consists of and how they belong together."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tidings.errors import IndexDamaged
from tidings.index.files import FileRecord, load_json, save_json

FORMAT = "tidings-index"
FORMAT_VERSION = 6


@dataclass(frozen=True, slots=True)
class SegmentRecord:
    """A segment as this version sees it: its folder, and the file that lists what was removed from it since."""

    folder: str
    removed: str | None = None
    subscriptions: int = 0
    gone: int = 0  # how many of these were removed since
    is_old: bool = False  # made by the plan before this one, which lives on beside it


@dataclass(frozen=True, slots=True)
class PlanRecord:
    """How conjunctions were given to shards, so that later ones are given alike."""

    algorithm: str
    matchers: int
    seed: int
    placer: str = "rarest"
    words: str = ""  # the file that tells the matchers of words; they are hashed when there is none
    space: str = ""  # the file that tells the matchers of places and words, where it is not words alone that decide
    before: str = ""  # the same of the plan before, while old subscriptions are left that lie as that one says
    version: int = 1  # grows with every plan that is learned while the index lives
    origin: str = ""  # what tells the plan file apart that it all began with, if there was one

    def serves(self, wanted: PlanRecord) -> bool:
        """Whether an index of this plan is what is wanted: of the same kind, learned since then or not yet."""
        kind = (self.matchers, self.seed, self.placer, self.origin)
        same = kind == (wanted.matchers, wanted.seed, wanted.placer, wanted.origin)
        return same and self.algorithm in ("hash", wanted.algorithm)


@dataclass(frozen=True, slots=True)
class Manifest:
    """Shard i consists of the segments `shards[i]`, oldest first; a replicated index has one shard and no plan."""

    version: int
    id_schema: str  # the Arrow type of the subscriptions' ids, as the hexadecimal form of a schema
    terms: int
    phrases: bool  # whether posts must be received with their gaps
    regions: bool  # whether positions of posts matter
    shared: bool  # whether a subscription has conjunctions in several shards, so that hits must be merged
    subscriptions: int
    layers: tuple[str, ...]
    shards: tuple[tuple[SegmentRecord, ...], ...]
    plan: PlanRecord | None
    files: dict[str, FileRecord]
    position: int = 0  # up to where the log of changes it was made from is in it


def manifest_path(folder: Path, version: int) -> Path:
    return folder / f"manifest-{version:08d}.json"


def newest_version(folder: Path) -> int:
    """The number of the newest manifest; IndexDamaged when there is none."""
    found = versions(folder)
    if not found:
        raise IndexDamaged(folder, "holds no index; build one first")
    return found[-1]


def versions(folder: Path) -> list[int]:
    """The versions that are there, ascending."""
    return [_version(path) for path in sorted(folder.glob("manifest-*.json"))]


def _version(path: Path) -> int:
    digits = path.stem.removeprefix("manifest-")
    if not digits.isdigit():
        raise IndexDamaged(path, "is not a manifest of an index; remove it")
    return int(digits)


def save_manifest(folder: Path, manifest: Manifest) -> None:
    save_json(
        manifest_path(folder, manifest.version),
        {"format": FORMAT, "format_version": FORMAT_VERSION, **asdict(manifest)},
    )


def load_manifest(folder: Path, version: int) -> Manifest:
    path = manifest_path(folder, version)
    body = load_json(path)
    if body.get("format") != FORMAT:
        raise IndexDamaged(path, "is not a manifest of a Tidings index")
    if body.get("format_version") != FORMAT_VERSION:
        found = body.get("format_version")
        raise IndexDamaged(path, f"has format {found}, this program reads {FORMAT_VERSION}; build the index again")
    try:
        return _read(body)
    except (KeyError, TypeError, AttributeError) as error:
        raise IndexDamaged(path, "lacks a field; build the index again") from error


def _read(body: dict[str, Any]) -> Manifest:
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
        position=body["position"],
    )
