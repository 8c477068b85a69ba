"""The options of the JVM: every Java accepts them, and choices of the user win."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from tidings.spark import gateway
from tidings.spark.java import require_java

SMALLEST_HEAP = "-Xmx128m"


@pytest.fixture(params=[1, 2, 16])
def cores(request, monkeypatch) -> int:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(request.param)))
    return request.param


def options() -> list[str]:
    return shlex.split(gateway.jvm_options()["spark.driver.extraJavaOptions"])


def test_java_accepts_the_options_even_with_a_small_heap(cores):
    require_java()
    java = Path(os.environ["JAVA_HOME"], "bin", "java")
    done = subprocess.run([java, *options(), SMALLEST_HEAP, "-version"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "version" in done.stderr


def test_only_small_machines_collect_garbage_in_one_thread(cores, monkeypatch):
    for name in gateway._GC_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert ("-XX:+UseSerialGC" in options()) == (cores <= 2)


@pytest.mark.parametrize("name", gateway._GC_VARIABLES)
def test_the_collector_that_the_user_chose_is_used(monkeypatch, name):
    monkeypatch.setenv(name, "-XX:+UseParallelGC")
    assert not [option for option in options() if "GC" in option or "NewSize" in option]
