"""The process all Python workers are forked from, with the kernels already compiled and the tables already built.

Spark starts it by ``spark.python.daemon.module``; without it every cold worker spends seconds on imports. A worker
collects garbage after every task: what is there before the fork is frozen, else that takes 70 ms a task. Where the
driver shares the machine, workers give way to it: what they found is stored meanwhile, and that must keep pace.
"""

from __future__ import annotations

import gc
import os

from pyspark import daemon, worker

from tidings.jit import warm
from tidings.spark import stages
from tidings.spark.session import NICENESS
from tidings.text.char_classes import class_table
from tidings.text.reference_analyzer import stemmer, stop_words

_WORKERS_NEED = (worker, stages)  # imported once here, not in every one of them

if __name__ == "__main__":
    warm()
    class_table(), stop_words(), stemmer()
    gc.collect()
    gc.freeze()
    os.nice(int(os.environ.get(NICENESS, "0")))
    daemon.manager()
