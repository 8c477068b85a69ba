"""Spark settings for tests: small data, short sessions, few cores."""

from __future__ import annotations

import json


def lean_spark_settings() -> dict[str, str]:
    """Return settings that make short sessions on tiny data cheap. They change no result.

    The C1 compiler and the serial garbage collector halve the CPU time of a test session (70 s to 37 s for
    `tests/spark/test_match.py`, `test_streaming.py` and `test_matched_posts.py`). Switching off code generation or
    adaptive execution gained less than 7 %, so tests run with both, as in production.
    """
    return {
        "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
    }


def lean_spark_environment() -> dict[str, str]:
    """Return environment variables that pass the lean settings to sessions of other processes.

    `tidings.session` reads `TIDINGS_SPARK_SETTINGS`, a JSON object. It replaces defaults of Tidings, but not settings
    that the program passes itself. It is meant for tests only.
    """
    return {"TIDINGS_SPARK_SETTINGS": json.dumps(lean_spark_settings()), "TIDINGS_TRAIN_CLASS_ARCHIVE": "off"}
