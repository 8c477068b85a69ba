"""An archive of the classes that Spark loads (class data sharing): with it, a JVM starts in half of the CPU time.

`tidings.stream.train_archive` writes the archive; every session of this user maps it. An archive belongs to one Java
and one Spark, and its name contains its checksum, because a JVM that maps a damaged archive may crash. Without an
archive, Spark only starts more slowly.
"""

from __future__ import annotations

import mmap
import os
import stat
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

FOLDER_VARIABLE = "TIDINGS_CLASS_ARCHIVES"  # directory instead of the cache of the user; empty: no archives
_RECORD_VARIABLE = "TIDINGS_RECORD_CLASSES"  # in a process that trains: the file that its JVM writes
_UNUSED_S, _UNFINISHED_S = 30 * 86_400.0, 3600.0
_QUIET = ("-Xlog:disable", "-Xlog:all=warning:stderr")  # a JVM that cannot map an archive says so on standard output


def archive_options(java_home: str, spark_home: str) -> list[str]:
    """Return the options of the JVM to map the archive, if there is a valid one; or to record one in this process."""
    if recorded := os.environ.get(_RECORD_VARIABLE):
        return [f"-XX:ArchiveClassesAtExit={recorded}", *_QUIET]
    folder = archive_folder()
    archive = None if folder is None else find_archive(folder, archive_key(java_home, spark_home))
    return [] if archive is None else [f"-XX:SharedArchiveFile={archive}", *_QUIET]


def archive_key(java_home: str, spark_home: str) -> str:
    """Return a checksum of what an archive depends on: the release of Java, and the jars of Spark."""
    release = Path(java_home, "release")
    parts = [java_home, release.read_text("utf-8", "replace") if release.is_file() else ""]
    for jar in sorted(Path(spark_home, "jars").glob("*.jar")):
        status = jar.stat()
        parts.append(f"{jar} {status.st_size} {status.st_mtime_ns}")
    return f"{zlib.crc32(chr(10).join(parts).encode()):08x}"


def find_archive(folder: Path, key: str) -> Path | None:
    """Return the archive with this key; None if there is none. Deletes damaged ones."""
    for archive in sorted(folder.glob(f"spark-{key}-*.jsa")):
        with suppress(OSError, ValueError):  # deleted, or empty
            if _is_private(archive) and archive.stem.rpartition("-")[2] == _checksum(archive):
                os.utime(archive)  # still in use
                return archive
        with suppress(OSError):
            archive.unlink()
    return None


@contextmanager
def recorded_archive(folder: Path, key: str) -> Iterator[None]:
    """Let the JVM that starts in this block, and ends in it, write an archive; it is valid after the block."""
    partial = folder / f".spark-{key}-{os.getpid()}.partial"
    os.environ[_RECORD_VARIABLE] = str(partial)
    try:
        yield
        partial.chmod(0o600)
        partial.rename(folder / f"spark-{key}-{_checksum(partial)}.jsa")
    finally:
        del os.environ[_RECORD_VARIABLE]
        partial.unlink(missing_ok=True)
    _delete_unused(folder)


def archive_folder() -> Path | None:
    """Return the directory of the archives, in the cache of the user; None if others could write to it."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    configured = os.environ.get(FOLDER_VARIABLE)
    if configured == "":
        return None
    folder = Path(configured) if configured else home / "tidings" / "classes"
    with suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if stat.S_ISDIR(folder.lstat().st_mode) and _is_private(folder) and os.access(folder, os.W_OK):
            return folder.absolute()
    return None


def _is_private(path: Path) -> bool:
    """Return whether only this user can write to a file or directory."""
    status = path.lstat()
    return status.st_uid == os.geteuid() and not status.st_mode & 0o022 and not stat.S_ISLNK(status.st_mode)


def _checksum(file: Path) -> str:
    with file.open("rb") as content, mmap.mmap(content.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return f"{zlib.crc32(data):08x}"


def _delete_unused(folder: Path) -> None:
    for archive in folder.glob("*spark-*"):
        age_s = _UNUSED_S if archive.suffix == ".jsa" else _UNFINISHED_S
        with suppress(OSError):
            if archive.lstat().st_mtime < time.time() - age_s:
                archive.unlink()
