"""Structured logging: every message is an event with named fields, printed as text or as JSON.

    LOG = logging.getLogger("tidings.stream")
    LOG.info(Event("batch committed", batch=3, posts=120))

prints `batch committed batch=3 posts=120`. Each package has one logger, named after it. Libraries never configure
logging; commands call `configure_logging` once.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

LogFormat = Literal["text", "json"]


class Event:
    """A log message: what happened, and the values that belong to it."""

    def __init__(self, event: str, /, **fields: Any) -> None:
        self.event = event
        self.fields: Mapping[str, Any] = fields

    def __str__(self) -> str:
        return " ".join([self.event, *(f"{name}={_format_value(value)}" for name, value in self.fields.items())])


def configure_logging(level: str = "INFO", log_format: LogFormat = "text", stream: TextIO | None = None) -> None:
    """Send the events of all Tidings packages to `stream` (standard error by default)."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    logger = logging.getLogger("tidings")
    logger.handlers[:] = [handler]
    logger.setLevel(level.upper())
    logger.propagate = False


class TextFormatter(logging.Formatter):
    """One line per event: time, level where it is not INFO, event, fields."""

    def format(self, record: logging.LogRecord) -> str:
        clock = datetime.fromtimestamp(record.created).strftime("%H:%M:%S")
        level = "" if record.levelno == logging.INFO else f"{record.levelname.lower()}: "
        text = f"{clock} {level}{record.getMessage()}"
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


class JsonFormatter(logging.Formatter):
    """One JSON object per event: time (UTC), level, logger, event, and the fields."""

    def format(self, record: logging.LogRecord) -> str:
        message = record.msg
        event = message.event if isinstance(message, Event) else record.getMessage()
        fields = message.fields if isinstance(message, Event) else {}
        entry = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": event,
            **fields,
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str, ensure_ascii=False)


def _format_value(value: Any) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return json.dumps(text, ensure_ascii=False) if not text or any(c in text for c in ' "=\n\r\t') else text
