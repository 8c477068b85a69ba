"""Local copies of an index that lies in a directory shared by machines: every file is copied once a machine and user.

An entry is a folder of the index (a segment, tombstones, a layer of words), named after the names, sizes and checksums
of its files, so a new version copies only what is new in it. Entries appear whole, by renaming. A use is a locked file
that lists entries: what it lists is not evicted, and the lock goes with the process that holds it.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
import uuid
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from tidings.atomic_io import folder_bytes
from tidings.errors import IndexDamaged, InputError
from tidings.index.files import FileRecord, check_file
from tidings.index.manifest import Manifest, load_manifest
from tidings.index.reader import Index
from tidings.version import __version__

FOLDER_VARIABLE = "TIDINGS_CACHE_DIR"
LIMIT_VARIABLE = "TIDINGS_CACHE_GB"
DEFAULT_LIMIT_GB = 8.0
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_TRIES = 2

Group = Mapping[str, FileRecord]  # the files of one folder of an index, by their names in it


@dataclass(frozen=True, slots=True)
class Cached:
    """An index opened from local copies, and a local folder for notes about it; both stay while `index` lives."""

    index: Index
    notes: Path


class Cache:
    """The copies of one user on one machine. Any number of processes may use it at once."""

    def __init__(self, folder: Path | None = None, limit_bytes: int | None = None) -> None:
        """OSError where the folder cannot be made, or is not this user's alone."""
        self._limit_bytes = _limit_bytes() if limit_bytes is None else limit_bytes
        self._root = _own(folder or _folder())
        # Copies are not flushed, so those made before the machine went down are not trusted.
        self._entries = self._root / f"entries-{_boot()}"
        self._uses = self._root / "uses"

    def open(self, shared: Path, version: int) -> Cached:
        """A version of the index in `shared`. IndexDamaged names the shared file that is missing or damaged."""
        manifest = load_manifest(shared, version)
        groups = _groups(manifest)
        entries = {name: _entry(name, group) for name, group in groups.items()}
        notes = f"notes-{_hash([os.path.abspath(shared), __version__])}"
        with self._alone():
            self._copy_missing(shared, groups, entries)
            (self._entries / notes).mkdir(exist_ok=True)
            use = self._use([*entries.values(), notes])
        index = Index(self._entries, _renamed(manifest, entries))
        weakref.finalize(index, _release, use, os.getpid())
        return Cached(index, self._entries / notes)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Nobody else copies or evicts meanwhile; what others left half-made is gone."""
        with (self._root / "lock").open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for folder in (self._entries, self._uses):
                folder.mkdir(exist_ok=True)
            for left in [*self._root.glob("partial-*"), *self._root.glob("entries-*")]:
                if left != self._entries:
                    shutil.rmtree(left, ignore_errors=True)
            yield

    def _copy_missing(self, shared: Path, groups: Mapping[str, Group], entries: Mapping[str, str]) -> None:
        missing = [name for name, group in groups.items() if not _is_whole(self._entries / entries[name], group)]
        if not missing:
            return
        needed = sum(record.size_bytes for name in missing for record in groups[name].values())
        self._evict(needed, keep=set(entries.values()))
        for name in missing:
            self._copy(shared / name, groups[name], self._entries / entries[name])

    def _copy(self, source: Path, group: Group, entry: Path) -> None:
        """Put an entry in place whole; a damaged one that is there goes."""
        partial = Path(tempfile.mkdtemp(prefix="partial-", dir=self._root))
        try:
            for name, record in group.items():
                _copy_file(source / name, partial / name, record)
            if entry.exists():
                entry.rename(self._root / f"partial-{uuid.uuid4().hex}")  # gone with the next call
            partial.rename(entry)
        finally:
            shutil.rmtree(partial, ignore_errors=True)

    def _use(self, names: list[str]) -> tuple[Path, int]:
        """Tell others that these entries are in use; they count as used just now."""
        path = self._uses / uuid.uuid4().hex
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.write(descriptor, json.dumps(names).encode())
        for name in names:
            os.utime(self._entries / name)
        return path, descriptor

    def _evict(self, needed_bytes: int, keep: set[str]) -> None:
        """Delete what was not used for longest until there is room; nothing that is in use."""
        keep = keep.union(*map(_in_use, self._uses.iterdir()))
        sizes = {entry: folder_bytes(entry) for entry in self._entries.iterdir()}
        excess = sum(sizes.values()) + needed_bytes - self._limit_bytes
        for entry in sorted(sizes, key=lambda entry: entry.stat().st_mtime_ns):
            if excess > 0 and entry.name not in keep:
                shutil.rmtree(entry, ignore_errors=True)
                excess -= sizes[entry]


def _groups(manifest: Manifest) -> dict[str, dict[str, FileRecord]]:
    groups: dict[str, dict[str, FileRecord]] = {}
    for path, record in manifest.files.items():
        folder, _, name = path.partition("/")
        groups.setdefault(folder, {})[name] = record
    return groups


def _entry(folder: str, group: Group) -> str:
    return f"{folder}-{_hash(sorted((name, one.size_bytes, one.checksum) for name, one in group.items()))}"


def _hash(content: object) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]


def _renamed(manifest: Manifest, entries: Mapping[str, str]) -> Manifest:
    """The same version with the folders called what they are called here."""

    def here(path: str) -> str:
        folder, slash, name = path.partition("/")
        return entries[folder] + slash + name

    shards = tuple(
        tuple(replace(one, folder=here(one.folder), removed=one.removed and here(one.removed)) for one in shard)
        for shard in manifest.shards
    )
    files = {here(path): record for path, record in manifest.files.items()}
    plan = manifest.plan
    if plan is not None:
        words, space, before = (file and here(file) for file in (plan.words, plan.space, plan.before))
        plan = replace(plan, words=words, space=space, before=before)
    return replace(manifest, layers=tuple(map(here, manifest.layers)), shards=shards, files=files, plan=plan)


def _is_whole(entry: Path, group: Group) -> bool:
    try:
        return all((entry / name).stat().st_size == record.size_bytes for name, record in group.items())
    except OSError:
        return False


def _copy_file(source: Path, target: Path, record: FileRecord) -> None:
    """Copy and read back. IndexDamaged names the source when that is what is wrong."""
    for _ in range(_TRIES):
        check_file(source, record, thoroughly=False)
        shutil.copyfile(source, target)
        if FileRecord.of(target) == record:
            return
        check_file(source, record, thoroughly=True)
    raise IndexDamaged(target, f"is not what was copied from {source}; is the disk sound?")


def _in_use(use: Path) -> Iterable[str]:
    """What a use lists, while the process that holds it lives; else it is forgotten."""
    with use.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            names: list[str] = json.load(file)
            return names
        use.unlink()
        return []


def _release(use: tuple[Path, int], process: int) -> None:
    if os.getpid() == process:  # a fork has the descriptor too, but not the say
        path, descriptor = use
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _own(folder: Path) -> Path:
    """The folder, made if need be. In a place where all may write, somebody else may have been there first."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if folder.is_symlink() or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError(f"{folder}: this is not a directory of this user alone")
    return folder


def _folder() -> Path:
    place = os.environ.get(FOLDER_VARIABLE) or tempfile.gettempdir()
    return Path(place) / f"tidings-cache-{os.getuid()}"


def _limit_bytes() -> int:
    asked = os.environ.get(LIMIT_VARIABLE) or str(DEFAULT_LIMIT_GB)
    try:
        return int(float(asked) * (1 << 30))
    except (ValueError, OverflowError) as error:
        raise InputError(
            f"{LIMIT_VARIABLE}={asked}: this is no number of gigabytes; give one, for example 8."
        ) from error


def _boot() -> str:
    try:
        return _BOOT.read_text("ascii").strip()
    except OSError:
        return "unknown"
