"""Problems of workers are reported in one sentence with a remedy."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from tidings.errors import InputError
from tidings.spark import session
from tidings.spark.error_translation import translate

IN_WORKER = """[PYTHON_EXCEPTION] An exception was thrown from the Python worker: Traceback (most recent call last):
  File "/opt/tidings/stages.py", line 9, in stage
    raise IndexDamaged(path, "this file of the index is missing. Build the index again.")
tidings.errors.IndexDamaged: /shared/index/keys.npy: this file of the index is missing. Build the index again.
 SQLSTATE: 38000"""
NO_PYTHON = (
    'Lost task 0.0: java.io.IOException: Cannot run program "/nowhere/python": error=2, No such file or directory'
)
NO_MODULE = """Lost task 0.0 in stage 0.0 (TID 0): org.apache.spark.SparkException:
Error from python worker:
  /usr/bin/python3: Error while finding module specification for 'tidings.spark.daemon' (ModuleNotFoundError: No \
module named 'tidings')
PYTHONPATH was:
  /opt/spark/python/lib/pyspark.zip"""
OTHER_PYTHON = """RuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.12 than that \
in driver: 3.11, PySpark cannot run with different minor versions."""


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        (IN_WORKER, "/shared/index/keys.npy: this file of the index is missing. Build the index again."),
        (NO_PYTHON, "Workers cannot run /nowhere/python. Install Tidings there"),
        (NO_MODULE, "The Python of the workers lacks tidings. Install Tidings there"),
        (OTHER_PYTHON, "Workers have Python 3.12, the driver 3.11. Install 3.11 there"),
    ],
)
def test_worker_problems_are_one_sentence(message, sentence):
    error = translate(RuntimeError(message), Path("out"))
    assert isinstance(error, InputError)
    assert str(error).startswith(sentence)
    assert "\n" not in str(error)


@pytest.mark.parametrize(("processes", "is_logged"), [(1, True), (3, False)])
def test_missing_executors_are_logged(monkeypatch, caplog, processes, is_logged):
    status = SimpleNamespace(getExecutorMemoryStatus=lambda: SimpleNamespace(size=lambda: processes))
    spark = SimpleNamespace(sparkContext=SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: status)))
    monkeypatch.setattr("threading.Timer", lambda _, check: SimpleNamespace(start=check))
    session._warn_if_no_executors(spark, "spark://127.0.0.1:7077")
    assert ("no executor registered yet master=spark://127.0.0.1:7077" in caplog.text) == is_logged
