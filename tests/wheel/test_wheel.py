"""The built wheel works in an empty environment outside the repository.

Each step uses only what `pip install` brought: first the base package, then the extras. `make test-wheel` runs it;
it needs a package index.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.wheel

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 600


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """The wheel, built as a release is."""
    out = tmp_path_factory.mktemp("dist")
    _run([sys.executable, "-m", "build", "--wheel", "--outdir", str(out), str(ROOT)], out)
    (path,) = out.glob("tidings-*.whl")
    return path


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory) -> Path:
    """An empty virtual environment with the base package only."""
    folder = tmp_path_factory.mktemp("user")
    _run([sys.executable, "-m", "venv", str(folder / "venv")], folder)
    _pip_install(folder, str(wheel))
    return folder


@pytest.fixture(scope="module")
def with_serve(environment, wheel) -> Path:
    """The same environment with the extra `serve`; tests that need its absence run before."""
    _pip_install(environment, f"{wheel}[serve]")
    return environment


def test_the_wheel_has_no_lab_and_no_tests(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert not [name for name in names if "tidings_lab" in name or name.startswith("tests/")]


def test_base_install_explains_and_matches(environment):
    explained = _tidings(environment, "explain", "storm -drill", "--text", "A storm is coming")
    assert "match" in explained.stdout.lower()
    _tidings(environment, "demo", "--write", "sample")
    done = _tidings(
        environment,
        "match",
        "sample/posts.jsonl",
        "--subscriptions",
        "sample/subscriptions.txt",
        "--out",
        "m.csv",
        "--json",
    )
    summary = json.loads(done.stdout)
    assert summary["matches"] == len((environment / "m.csv").read_text().splitlines()) - 1 > 0


def test_base_install_runs_the_library(environment):
    code = (
        "import tidings; spark = tidings.session();"
        "posts = spark.createDataFrame([(1, 'a storm'), (2, 'sun')], ['id', 'text']);"
        "subscriptions = spark.createDataFrame([(7, 'storm')], ['id', 'query']);"
        "print([tuple(row)[:2] for row in tidings.match(posts, subscriptions).collect()])"
    )
    assert "[(7, 1)]" in _run([str(environment / "venv/bin/python"), "-c", code], environment).stdout


def test_base_install_provisions(environment):
    answer = _tidings(environment, "provision", "--subscriptions", "1M", "--feeds", "10K", "--json")
    assert json.loads(answer.stdout)


@pytest.mark.parametrize(
    ("command", "extra"),
    [(("run", "--posts", "in", "--state", "s"), "stream"), (("serve", "--state", "s"), "serve")],
    ids=["run", "serve"],
)
def test_a_missing_extra_is_named_in_one_sentence(environment, command, extra):
    (environment / "in").mkdir(exist_ok=True)
    done = _tidings(environment, *command, check=False)
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert f"tidings[{extra}]" in done.stderr


def test_serve_install_runs_a_stream_and_the_demo(with_serve):
    _tidings(with_serve, "subscribe", "storm", "--state", "state")
    posts = with_serve / "incoming"
    posts.mkdir()
    (posts / "a.jsonl").write_text('{"id": 1, "text": "a storm"}\n{"id": 2, "text": "sun"}\n')
    _tidings(with_serve, "run", "--posts", "incoming", "--state", "state", "--once")
    assert "storm" in _tidings(with_serve, "matches", "1", "--state", "state").stdout
    _tidings(with_serve, "demo", "--seconds", "5")


def test_serve_install_serves_the_page(with_serve):
    command = [str(with_serve / "venv/bin/tidings"), "serve", "--state", "served", "--bind", "127.0.0.1:0"]
    out = (with_serve / "serve.log").open("w+")
    process = subprocess.Popen(
        command, cwd=with_serve, env=_environment(), stdout=out, stderr=subprocess.STDOUT, start_new_session=True
    )
    try:
        url = _wait_for_url(process, with_serve / "serve.log")
        with urllib.request.urlopen(url, timeout=30) as answer:
            assert answer.status == 200
            assert b"<html" in answer.read().lower()
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(120)
        out.close()


def _wait_for_url(process: subprocess.Popen, log: Path) -> str:
    end = time.monotonic() + TIMEOUT_S
    while time.monotonic() < end:
        if found := re.search(r"http://127\.0\.0\.1:\d+/", log.read_text()):
            return found.group()
        assert process.poll() is None, log.read_text()
        time.sleep(0.2)
    raise AssertionError(log.read_text())


def _pip_install(folder: Path, requirement: str) -> None:
    pip = [str(folder / "venv/bin/python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    _run([*pip, "-c", str(ROOT / "constraints.txt"), requirement], folder)


def _tidings(folder: Path, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return _run([str(folder / "venv/bin/tidings"), *arguments], folder, check)


def _run(command: list[str], folder: Path, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command, cwd=folder, env=_environment(), capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert not check or done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done


def _environment() -> dict[str, str]:
    """The environment of a user: nothing of the repository's Python."""
    hidden = ("PYTHONPATH", "VIRTUAL_ENV", "PYTEST_CURRENT_TEST", "TIDINGS_DATA")
    return {name: value for name, value in os.environ.items() if name not in hidden}
