"""The contract writes thousands of small files; whether they reach the platter is not what it is about."""

from __future__ import annotations

import pytest

from tidings.index import files


@pytest.fixture(autouse=True, scope="session")
def _files_stay_in_memory():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files.os, "fsync", lambda descriptor: None)
        yield
