"""Make an index available to workers: by path on a local master, otherwise as a Spark archive."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

from tidings.errors import InputError
from tidings.index.reader import Index
from tidings.spark.gateway import is_local
from tidings.spark.session import is_connect
from tidings.spark.worker_state import IndexRef

_MAX_PACKED_BYTES = 40 << 20  # a Connect server accepts 128 MB, and the plan contains the index once per stage


def ship_index(spark: SparkSession, index: Index, streaming: bool = False) -> IndexRef:
    """Return a reference under which every worker of the session finds the index."""
    if not is_connect(spark) and is_local(spark.sparkContext.master or "local"):
        return IndexRef(str(index.folder), index.version)
    folder = Path(tempfile.mkdtemp(prefix="tidings-ship-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # executors fetch it on first use
    archive = shutil.make_archive(str(folder / index.folder.name), "zip", index.folder)
    named_archive = f"{archive}#{index.folder.name}"  # every executor unpacks it once
    if is_connect(spark) and streaming:  # streaming queries run in a clone of the session, without its files
        return IndexRef(index.folder.name, index.version, packed=_read_if_fits(Path(archive)))
    if is_connect(spark):
        spark.addArtifacts(named_archive, archive=True)
    else:
        spark.sparkContext.addArchive(named_archive)
    return IndexRef(index.folder.name, index.version, shipped=True)


def _read_if_fits(archive: Path) -> bytes:
    if archive.stat().st_size > _MAX_PACKED_BYTES:
        raise InputError(
            f"The index takes {archive.stat().st_size >> 20:,} MB; streaming queries over Spark Connect allow "
            f"{_MAX_PACKED_BYTES >> 20} MB. Use a session without Spark Connect, or `tidings run`."
        )
    return archive.read_bytes()


def shared_path_ref(index: Index) -> IndexRef:
    """Return a reference for workers that read the index folder under the same path.

    Workers on other machines copy its files to their local cache.
    """
    context = SparkContext._active_spark_context
    is_remote = context is not None and not is_local(context.master or "local")
    return IndexRef(str(index.folder.absolute()), index.version, cached=is_remote)
