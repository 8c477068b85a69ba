"""Fixtures of the lab tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def generated_data() -> Iterator[None]:
    """Ignore the real data, so that tests give the same result on every machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIDINGS_DATA", "none")
        yield
