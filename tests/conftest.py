"""The same commit gives the same random examples, so failures are repeatable; `make fuzz` tries new ones."""

import logging
import os

import pytest
from hypothesis import settings
from tests.data import HIDDEN, REAL_DATA

from tidings import private_files
from tidings.query import cover

pytest_plugins = ["tests.spark.fixtures"]

settings.register_profile("repeatable", derandomize=True)
settings.register_profile("full", derandomize=True, max_examples=300)
settings.register_profile("fresh", derandomize=False, print_blob=True)
settings.load_profile("repeatable")

UMASK = private_files.current_umask()


@pytest.fixture(autouse=True)
def _restore_logging():
    """Undo the logging set-up of commands that ran in this process: it would hide events from `caplog`."""
    logger = logging.getLogger("tidings")
    before = logger.handlers[:], logger.level, logger.propagate
    yield
    logger.handlers[:], logger.level, logger.propagate = before


@pytest.fixture(autouse=True)
def _restore_umask(monkeypatch):
    """Undo the umask of commands that ran in this process, also in fixtures of a module: it lasts until the end."""
    monkeypatch.setattr(private_files, "_umasks", [])
    os.umask(UMASK)
    yield
    os.umask(UMASK)


@pytest.fixture
def nothing_multiplied(monkeypatch):
    """Index queries with conditions wherever it is possible: usually only large ORs have one."""
    monkeypatch.setattr(cover, "most_multiplied", lambda literals: 1)
    monkeypatch.setattr(cover, "_MAX_CONJUNCTIONS_EXPANDED", 1)
    monkeypatch.setattr(cover, "MAX_ENTRIES_OF_PRODUCT", 1)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Hide the real data from tests without the marker `real_data`, so that they give the same result without it."""
    os.environ["TIDINGS_DATA"] = REAL_DATA if item.get_closest_marker("real_data") else HIDDEN
