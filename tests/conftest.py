"""The same commit gives the same random examples, so failures are repeatable; `make fuzz` tries new ones."""

import logging

import pytest
from hypothesis import settings

pytest_plugins = ["tests.spark.fixtures"]

settings.register_profile("repeatable", derandomize=True)
settings.register_profile("fresh", derandomize=False, print_blob=True)
settings.load_profile("repeatable")


@pytest.fixture(autouse=True)
def _restore_logging():
    """Undo the logging set-up of commands that ran in this process: it would hide events from `caplog`."""
    logger = logging.getLogger("tidings")
    before = logger.handlers[:], logger.level, logger.propagate
    yield
    logger.handlers[:], logger.level, logger.propagate = before
