"""Deleting versions of an index that nobody needs any more."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from pathlib import Path

from tidings.index.manifest import load_manifest, manifest_path, versions


def retire_versions(folder: Path, keep: Collection[int]) -> int:
    """Delete all versions but these, with the files only they consist of; how many. The newest always stays.

    Files of versions in the making belong to no manifest and are not touched.
    """
    found = versions(folder)
    kept = [version for version in found if version in keep or version == found[-1]]
    needed = {_folder(name) for version in kept for name in load_manifest(folder, version).files}
    gone = sorted(set(found) - set(kept))
    for version in gone:
        folders = {_folder(name) for name in load_manifest(folder, version).files}
        manifest_path(folder, version).unlink()  # first: a version with files missing must not be found
        for name in folders - needed:
            shutil.rmtree(folder / name, ignore_errors=True)
    return len(gone)


def sweep(folder: Path) -> None:
    """Delete what belongs to no version: left by a process that was killed. Only while nobody makes a version."""
    needed = {_folder(name) for version in versions(folder) for name in load_manifest(folder, version).files}
    for found in folder.glob("*-*"):
        if found.is_dir() and found.name not in needed:
            shutil.rmtree(found, ignore_errors=True)


def _folder(name: str) -> str:
    return name.split("/")[0]
