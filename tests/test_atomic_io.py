"""Disk usage is measured while files are deleted."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tidings.atomic_io import disk_usage_bytes


def _create_folder(folder: Path, size: int) -> Path:
    folder.mkdir(parents=True)
    (folder / "file").write_bytes(b"x" * size)
    return folder


def test_all_files_below_a_directory_are_counted(tmp_path: Path) -> None:
    _create_folder(tmp_path / "a" / "b", 10)
    _create_folder(tmp_path / "c", 5)
    assert disk_usage_bytes(tmp_path) == 15
    assert disk_usage_bytes(tmp_path / "nowhere") == 0


def test_directories_deleted_while_counting_are_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b", "c"):
        _create_folder(tmp_path / name, 7)
    folders = [tmp_path / entry.name for entry in os.scandir(tmp_path)]  # in the order of the walk
    scandir = os.scandir

    def delete_folders_first(path: str | int) -> object:
        """Delete all folders before the first one is read, after they were listed."""
        if str(path) == str(folders[0]):
            monkeypatch.setattr(os, "scandir", scandir)
            for folder in folders:
                shutil.rmtree(folder, ignore_errors=True)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", delete_folders_first)
    assert disk_usage_bytes(tmp_path) == 0
