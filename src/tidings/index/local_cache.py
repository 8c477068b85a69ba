"""Local copies of an index in a shared directory: every file is copied once per machine and user.

An entry is a folder of an index (a segment, tombstones, a layer of the vocabulary), named after the names, sizes and
checksums of its files, so equal content is copied once, whatever the version and the index. Entries are renamed into
place when complete. A pin is a locked file that lists entries: these are not evicted, and the lock ends with its
process.
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

from tidings.atomic_io import disk_usage_bytes
from tidings.errors import IndexDamaged, InputError
from tidings.index.files import FileRecord, check_file
from tidings.index.manifest import Content, Manifest, load_manifest
from tidings.index.reader import Index
from tidings.version import __version__

FOLDER_VARIABLE = "TIDINGS_CACHE_DIR"
LIMIT_VARIABLE = "TIDINGS_CACHE_GB"
DEFAULT_LIMIT_GB = 8.0
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_COPY_ATTEMPTS = 2

Group = Mapping[str, FileRecord]  # the files of one folder of an index, by name


@dataclass(frozen=True, slots=True)
class CachedIndex:
    """An index opened from local copies, and a local scratch folder; both are kept while `index` is alive."""

    index: Index
    scratch: Path


class IndexCache:
    """The copies of one user on one machine. Several processes may use it simultaneously."""

    def __init__(self, folder: Path | None = None, limit_bytes: int | None = None) -> None:
        """Raises OSError if the folder cannot be created or is accessible to other users."""
        self._limit_bytes = _configured_limit_bytes() if limit_bytes is None else limit_bytes
        self._root = _make_private(folder or _default_folder())
        # Copies are not synced to disk, so those made before the last boot are not trusted.
        self._entries = self._root / f"entries-{_boot_id()}"
        self._pins = self._root / "pins"

    def open(self, shared: Path, version: int) -> CachedIndex:
        """Open a version of the index in `shared`. IndexDamaged names a shared file that is missing or damaged."""
        manifest = load_manifest(shared, version)
        groups = _groups(manifest)
        entries = {folder: _entry(folder, content) for folder, content in manifest.contents().items()}
        scratch = f"scratch-{_hash([os.path.abspath(shared), __version__])}"
        with self._exclusive():
            self._copy_missing(shared, groups, entries)
            (self._entries / scratch).mkdir(exist_ok=True)
            pin = self._pin([*entries.values(), scratch])
        index = Index(self._entries, _rename_folders(manifest, entries))
        weakref.finalize(index, _release, pin, os.getpid())
        return CachedIndex(index, self._entries / scratch)

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Lock out other processes that copy or evict, and delete what killed processes left."""
        with (self._root / "lock").open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for folder in (self._entries, self._pins):
                folder.mkdir(exist_ok=True)
            for path in [*self._root.glob("partial-*"), *self._root.glob("entries-*")]:
                if path != self._entries:
                    shutil.rmtree(path, ignore_errors=True)
            yield

    def _copy_missing(self, shared: Path, groups: Mapping[str, Group], entries: Mapping[str, str]) -> None:
        missing = [name for name, group in groups.items() if not _is_complete(self._entries / entries[name], group)]
        if not missing:
            return
        needed = sum(record.size_bytes for name in missing for record in groups[name].values())
        self._evict(needed, keep=set(entries.values()))
        for name in missing:
            self._copy(shared / name, groups[name], self._entries / entries[name])

    def _copy(self, source: Path, group: Group, entry: Path) -> None:
        """Copy an entry and rename it into place; a damaged one is replaced."""
        partial = Path(tempfile.mkdtemp(prefix="partial-", dir=self._root))
        try:
            for name, record in group.items():
                _copy_file(source / name, partial / name, record)
            if entry.exists():
                entry.rename(self._root / f"partial-{uuid.uuid4().hex}")  # deleted by the next call
            partial.rename(entry)
        finally:
            shutil.rmtree(partial, ignore_errors=True)

    def _pin(self, names: list[str]) -> tuple[Path, int]:
        """Protect these entries from eviction, and mark them as used now."""
        path = self._pins / uuid.uuid4().hex
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.write(descriptor, json.dumps(names).encode())
        for name in names:
            os.utime(self._entries / name)
        return path, descriptor

    def _evict(self, needed_bytes: int, keep: set[str]) -> None:
        """Delete the least recently used entries until there is enough space; pinned entries stay."""
        keep = keep.union(*map(_pinned_names, self._pins.iterdir()))
        sizes = {entry: disk_usage_bytes(entry) for entry in self._entries.iterdir()}
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


def _entry(folder: str, content: Content) -> str:
    """Return the name of an entry, which depends on its kind and content, but not on the index and its version."""
    return f"{folder.partition('-')[0]}-{_hash(content)}"


def _hash(content: object) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]


def _rename_folders(manifest: Manifest, entries: Mapping[str, str]) -> Manifest:
    """Return the manifest with the folder names of the cache."""

    def local(path: str) -> str:
        folder, slash, name = path.partition("/")
        return entries[folder] + slash + name

    shards = tuple(
        tuple(replace(r, folder=local(r.folder), removed=r.removed and local(r.removed)) for r in shard)
        for shard in manifest.shards
    )
    files = {local(path): record for path, record in manifest.files.items()}
    plan = manifest.plan
    if plan is not None:
        names = (plan.word_file, plan.spatial_file, plan.previous_file)
        word, spatial, previous = (name and local(name) for name in names)
        plan = replace(plan, word_file=word, spatial_file=spatial, previous_file=previous)
    statistics = manifest.statistics and local(manifest.statistics)
    layers = tuple(map(local, manifest.layers))
    return replace(manifest, layers=layers, shards=shards, files=files, plan=plan, statistics=statistics)


def _is_complete(entry: Path, group: Group) -> bool:
    try:
        return all((entry / name).stat().st_size == record.size_bytes for name, record in group.items())
    except OSError:
        return False


def _copy_file(source: Path, target: Path, record: FileRecord) -> None:
    """Copy a file and verify the copy. IndexDamaged names the source if that is damaged."""
    for _ in range(_COPY_ATTEMPTS):
        check_file(source, record, thoroughly=False)
        shutil.copyfile(source, target)
        if FileRecord.of(target) == record:
            return
        check_file(source, record, thoroughly=True)
    raise IndexDamaged(target, f"differs from {source} after copying. Check the disk.")


def _pinned_names(pin: Path) -> Iterable[str]:
    """Return the entries of a pin; delete it if its process has ended."""
    with pin.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            names: list[str] = json.load(file)
            return names
        pin.unlink()
        return []


def _release(pin: tuple[Path, int], process: int) -> None:
    if os.getpid() == process:  # a fork has the descriptor too, but only the creating process may release it
        path, descriptor = pin
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _make_private(folder: Path) -> Path:
    """Return the folder, created if missing; in a shared directory another user may have created it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.lstat()
    if folder.is_symlink() or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise PermissionError(f"{folder}: other users can access this directory. Remove it or use mode 0700.")
    return folder


def _default_folder() -> Path:
    parent = os.environ.get(FOLDER_VARIABLE) or tempfile.gettempdir()
    return Path(parent) / f"tidings-cache-{os.getuid()}"


def _configured_limit_bytes() -> int:
    value = os.environ.get(LIMIT_VARIABLE) or str(DEFAULT_LIMIT_GB)
    try:
        return int(float(value) * (1 << 30))
    except (ValueError, OverflowError) as error:
        raise InputError(f"{LIMIT_VARIABLE}={value}: not a number of gigabytes. Set a number such as 8.") from error


def _boot_id() -> str:
    try:
        return _BOOT_ID.read_text("ascii").strip()
    except OSError:
        return "unknown"
