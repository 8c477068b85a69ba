"""The process all Python workers are forked from, with the kernels already compiled and the tables already built.

Spark starts it by ``spark.python.daemon.module``; without it every cold worker spends seconds on imports.
"""

from __future__ import annotations

from pyspark import daemon

from tidings.jit import warm
from tidings.receive.characters import class_table
from tidings.receive.clean import stemmer, stop_words

if __name__ == "__main__":
    warm()
    class_table(), stop_words(), stemmer()
    daemon.manager()
