"""Delete versions of an index that are no longer needed, and files that belong to no version."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from tidings.errors import IndexDamaged
from tidings.index.manifest import has_older_format, list_versions, load_manifest, manifest_path


def delete_versions(folder: Path, keep: Collection[int]) -> int:
    """Delete all versions but these and the newest, with files that only they use; return their number.

    Files of unpublished versions belong to no manifest and are not touched.
    """
    versions = list_versions(folder)
    kept = [version for version in versions if version in keep or version == versions[-1]]
    needed = {name for version in kept for name in _folders(folder, version)}
    deleted = [version for version in versions if version not in kept]
    for version in deleted:
        folders = _folders(folder, version)
        manifest_path(folder, version).unlink()  # first: a version without its files must not be visible
        for name in folders - needed:
            shutil.rmtree(folder / name, ignore_errors=True)
    return len(deleted)


def delete_orphans(folder: Path) -> None:
    """Delete what a killed process left: folders of no version. Call it only while no version is being built."""
    needed = {name for version in list_versions(folder) for name in _folders(folder, version)}
    for path in folder.glob("*-[0-9]*-*"):
        if path.is_dir() and path.name not in needed:
            shutil.rmtree(path, ignore_errors=True)


def delete_outdated(folder: Path) -> bool:
    """Delete an index that an earlier release wrote; return whether there was one. The caller builds it again."""
    with suppress(IndexDamaged):  # opening the index reports the damage
        versions = list_versions(folder)
        if versions and has_older_format(folder, versions[-1]):
            for version in versions:
                manifest_path(folder, version).unlink()
            delete_orphans(folder)
            return True
    return False


def _folders(folder: Path, version: int) -> set[str]:
    return {name.split("/")[0] for name in load_manifest(folder, version).files}
