"""Bringing an index to the workers: by its path where they share this machine's disk, else through Spark's files."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tidings.index.index import Index
from tidings.spark.worker import IndexRef


def ship(spark: SparkSession, index: Index) -> IndexRef:
    """A reference under which every worker of the session finds the index."""
    context = spark.sparkContext
    if (context.master or "local").startswith(("local[", "local,")) or context.master == "local":
        return IndexRef(str(index.folder), index.version)
    context.addFile(str(index.folder), recursive=True)
    return IndexRef(index.folder.name, index.version, shipped=True)
