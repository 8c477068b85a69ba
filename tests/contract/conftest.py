"""The contract writes thousands of small files; it does not test whether they are durable."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True, scope="session")
def _skip_fsync():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda descriptor: None)
        yield
