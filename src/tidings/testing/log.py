"""Capture log events in a test, independent of how logging is configured."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


class _MessageHandler(logging.Handler):
    def __init__(self, level: int) -> None:
        super().__init__(level)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


@contextmanager
def captured_events(name: str = "tidings", level: int = logging.INFO) -> Iterator[list[str]]:
    """Collect the messages of a logger and its children, from INFO upwards by default."""
    logger, handler = logging.getLogger(name), _MessageHandler(level)
    saved_level = logger.level
    logger.addHandler(handler)
    logger.setLevel(level)
    try:
        yield handler.messages
    finally:
        logger.removeHandler(handler)
        logger.setLevel(saved_level)
