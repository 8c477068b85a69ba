"""Bringing an index to the workers: by its path where they share a disk with us, else through Spark's archives."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

from tidings.errors import InputError
from tidings.index.reader import Index
from tidings.spark.session import is_connect, is_local
from tidings.spark.worker_state import IndexRef

_MOST_IN_A_MESSAGE = 40 << 20  # a Connect server takes 128 MB, and the plan holds the index in every stage


def ship(spark: SparkSession, index: Index, streaming: bool = False) -> IndexRef:
    """A reference under which every worker of the session finds the index."""
    if not is_connect(spark) and is_local(spark.sparkContext.master or "local"):
        return IndexRef(str(index.folder), index.version)
    folder = Path(tempfile.mkdtemp(prefix="tidings-ship-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # executors fetch it when they first need it
    archive = shutil.make_archive(str(folder / index.folder.name), "zip", index.folder)
    named = f"{archive}#{index.folder.name}"  # every executor unpacks it once
    if is_connect(spark) and streaming:  # such queries run in a copy of the session that has not its files
        return IndexRef(index.folder.name, index.version, packed=_small(Path(archive)))
    if is_connect(spark):
        spark.addArtifacts(named, archive=True)
    else:
        spark.sparkContext.addArchive(named)
    return IndexRef(index.folder.name, index.version, shipped=True)


def _small(archive: Path) -> bytes:
    if archive.stat().st_size > _MOST_IN_A_MESSAGE:
        raise InputError(
            f"The index takes {archive.stat().st_size >> 20:,} MB, and a streaming query of Spark Connect can be sent "
            f"{_MOST_IN_A_MESSAGE >> 20} MB; use a session without Spark Connect, or tidings run."
        )
    return archive.read_bytes()


def reference(index: Index) -> IndexRef:
    """A reference for workers that can read the folder of the index under the same path.

    Those of other machines keep copies of its files.
    """
    context = SparkContext._active_spark_context
    elsewhere = context is not None and not is_local(context.master or "local")
    return IndexRef(str(index.folder.absolute()), index.version, cached=elsewhere)
