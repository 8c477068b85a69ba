"""The same commit gives the same random examples, so failures are repeatable; `make fuzz` tries new ones."""

import logging
import os

import pytest
from hypothesis import settings
from tests.data import HIDDEN, REAL_DATA

pytest_plugins = ["tests.spark.fixtures"]

settings.register_profile("repeatable", derandomize=True)
settings.register_profile("full", derandomize=True, max_examples=300)
settings.register_profile("fresh", derandomize=False, print_blob=True)
settings.load_profile("repeatable")


@pytest.fixture(autouse=True)
def _restore_logging():
    """Undo the logging set-up of commands that ran in this process: it would hide events from `caplog`."""
    logger = logging.getLogger("tidings")
    before = logger.handlers[:], logger.level, logger.propagate
    yield
    logger.handlers[:], logger.level, logger.propagate = before


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Hide the real data from tests without the marker `real_data`, so that they give the same result without it."""
    os.environ["TIDINGS_DATA"] = REAL_DATA if item.get_closest_marker("real_data") else HIDDEN
