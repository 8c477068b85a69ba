"""Permissions of the state: it has secrets, so only its user may read it (0700, 0600).

An administrator who shares the state with a group, for example with the Spark workers of a cluster, creates the
directory with the setgid bit (`install -d -m 2750 -g GROUP DIR`). Files in it then get the bits of its group. Other
bits of an existing directory have no effect on new files.
"""

from __future__ import annotations

import errno
import os
import shlex
import stat
from pathlib import Path
from typing import NamedTuple

NOT_WRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS)  # errors of a user that may only read
_PRIVATE_UMASK = 0o077
_GROUP_BITS = 0o070
_FOLDER_MODE, _FILE_MODE = 0o777, 0o666
_umasks: list[int] = []  # the umask that the process was started with, once it is restricted


def private_umask(folder: Path) -> int:
    """Return the umask for new files in a state directory, which need not exist."""
    try:
        mode = folder.stat().st_mode
    except OSError:
        return _PRIVATE_UMASK
    return _PRIVATE_UMASK & ~(mode & _GROUP_BITS) if mode & stat.S_ISGID else _PRIVATE_UMASK


def restrict_umask(folder: Path) -> None:
    """Create all later files of this process, and of its children, with the permissions of a state directory."""
    before = os.umask(private_umask(folder))
    if not _umasks:
        _umasks.append(before)


def make_result_folder(folder: Path) -> None:
    """Create a directory for results, and its parents, with the permissions of the umask at the start."""
    if not folder.is_dir():
        make_result_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        folder.chmod(_FOLDER_MODE & ~_original_umask())


def publish_permissions(file: Path) -> None:
    """Give a result, which is not part of the state, the permissions of the umask at the start."""
    file.chmod(_FILE_MODE & ~_original_umask())


def make_private_folder(folder: Path) -> None:
    """Create a state directory that only this user can read; an existing one keeps its permissions."""
    if folder.is_dir():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=_FOLDER_MODE & ~_PRIVATE_UMASK, exist_ok=True)


def touch_private(file: Path) -> None:
    """Create an empty file with the permissions of its state directory; an existing one stays as it is."""
    mode = _FILE_MODE & ~private_umask(file.parent)
    os.close(os.open(file, os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, mode))


def write_private(file: Path, text: str) -> None:
    """Write a file that only this user can read. An old one is deleted first: it may be open, or a link."""
    file.unlink(missing_ok=True)
    handle = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(handle, "w", encoding="utf-8") as content:
        content.write(text)


class Exposure(NamedTuple):
    """That users who were not chosen can read a state: its mode, and the command that changes this."""

    mode: str
    remedy: str


def find_exposure(folder: Path) -> Exposure | None:
    """Return whether other users can read a state directory, or None. A setgid bit means that its group was chosen."""
    try:
        mode = folder.stat().st_mode
    except OSError:
        return None
    chosen = _GROUP_BITS if mode & stat.S_ISGID else 0
    if not mode & _PRIVATE_UMASK & ~chosen:
        return None
    return Exposure(f"{stat.S_IMODE(mode):04o}", f"chmod -R {'o' if chosen else 'go'}= {shlex.quote(str(folder))}")


def current_umask() -> int:
    """Return the umask of this process. There is no call that only reads it, so call this before threads start."""
    umask = os.umask(_PRIVATE_UMASK)
    os.umask(umask)
    return umask


def _original_umask() -> int:
    return _umasks[0] if _umasks else current_umask()
