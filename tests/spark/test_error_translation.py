"""What is wrong with the workers of a cluster is said in one sentence, with the way out."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from tidings.errors import InputError
from tidings.spark import session
from tidings.spark.error_translation import in_words

IN_WORKER = """[PYTHON_EXCEPTION] An exception was thrown from the Python worker: Traceback (most recent call last):
  File "/opt/tidings/stages.py", line 9, in stage
    raise IndexDamaged(path, "this file of the index is missing; build the index again")
tidings.errors.IndexDamaged: /shared/index/keys.npy: this file of the index is missing; build the index again
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
    ("told", "sentence"),
    [
        (IN_WORKER, "/shared/index/keys.npy: this file of the index is missing; build the index again"),
        (NO_PYTHON, "The workers cannot run /nowhere/python; install Tidings there"),
        (NO_MODULE, "The Python of the workers has no tidings; install Tidings there"),
        (OTHER_PYTHON, "The workers have Python 3.12, this is 3.11; install 3.11 there"),
    ],
)
def test_what_is_wrong_with_workers_is_one_sentence(told, sentence):
    error = in_words(RuntimeError(told), Path("out"))
    assert isinstance(error, InputError)
    assert str(error).startswith(sentence)
    assert "\n" not in str(error)


@pytest.mark.parametrize(("processes", "said"), [(1, True), (3, False)])
def test_a_cluster_that_gives_no_executor_is_told_of(monkeypatch, capsys, processes, said):
    status = SimpleNamespace(getExecutorMemoryStatus=lambda: SimpleNamespace(size=lambda: processes))
    spark = SimpleNamespace(sparkContext=SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: status)))
    monkeypatch.setattr(session.threading, "Timer", lambda _, look: SimpleNamespace(start=look))
    session._tell_later(spark, "spark://127.0.0.1:7077")
    told = capsys.readouterr().err
    assert ("spark://127.0.0.1:7077 gives no executor yet" in told) == said
