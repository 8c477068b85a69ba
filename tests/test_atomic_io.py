"""Counting what takes disk while it changes."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tidings.atomic_io import disk_usage_bytes


def _filled(folder: Path, size: int) -> Path:
    folder.mkdir(parents=True)
    (folder / "file").write_bytes(b"x" * size)
    return folder


def test_all_files_below_a_folder_count(tmp_path: Path) -> None:
    _filled(tmp_path / "a" / "b", 10)
    _filled(tmp_path / "c", 5)
    assert disk_usage_bytes(tmp_path) == 15
    assert disk_usage_bytes(tmp_path / "nowhere") == 0


def test_folders_that_go_away_while_counting_are_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b", "c"):
        _filled(tmp_path / name, 7)
    folders = [tmp_path / entry.name for entry in os.scandir(tmp_path)]  # in the order in which they are looked into
    look = os.scandir

    def retire(place: str | int) -> object:
        """The folders are listed; before the first of them is looked into, all are deleted."""
        if str(place) == str(folders[0]):
            monkeypatch.setattr(os, "scandir", look)
            for folder in folders:
                shutil.rmtree(folder, ignore_errors=True)
        return look(place)

    monkeypatch.setattr(os, "scandir", retire)
    assert disk_usage_bytes(tmp_path) == 0
