"""The process from which Spark forks all Python workers; it loads the kernels and tables of matching once.

Spark starts it by ``spark.python.daemon.module``. Without it, every new worker spends seconds on imports. Workers
collect garbage after every task; objects that exist before the fork are frozen, which saves 70 ms per task. On the
machine of the driver, workers run at a lower priority, because the driver must store results as fast as they come.
"""

from __future__ import annotations

import gc
import os

import pandas
from pyspark import daemon, worker

from tidings.jit import load_kernels
from tidings.spark import stages
from tidings.spark.gateway import NICENESS_VARIABLE
from tidings.text.char_classes import class_table
from tidings.text.reference_analyzer import stemmer, stop_words

KERNEL_PACKAGES = ("text", "matching")  # those of every batch
_PRELOADED = (worker, stages, pandas)  # workers need not import them; pyarrow would import pandas in each

if __name__ == "__main__":
    load_kernels(KERNEL_PACKAGES)
    class_table(), stop_words(), stemmer()
    gc.collect()
    gc.freeze()
    os.nice(int(os.environ.get(NICENESS_VARIABLE, "0")))
    daemon.manager()
