"""Invalid options of `tidings run` are rejected in one sentence, before Spark starts; it starts early otherwise."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.cli.runs import environment

from tidings.cli.main import run


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--trigger", "often"], "--trigger 'often': not a duration"),
        (["--max-latency", "0 s"], "--max-latency '0 s': must be greater than 0"),
        (["--refresh-plan-every", "soon"], "--refresh-plan-every 'soon': not a duration"),
        (["--refresh-plan-every", "24 h", "--plan", "replicated"], "--refresh-plan-every needs the partitioned mode"),
        (
            ["--shed", "consensus", "--plan", "replicated"],
            "--shed consensus needs the partitioned mode. Remove --plan replicated.",
        ),
        (["--shed", "sleep"], "'sleep' is not one of 'off', 'consensus', 'subscription', 'random'"),
        (["--partitioner", "clever"], "neither an algorithm nor a plan file. Choose one of: hash, salb+"),
        (
            ["--partitioner", "hybrid", "--shed", "random"],
            "--shed random needs a word plan, but 'hybrid' makes a spatial plan",
        ),
        (["--rebalance-factor", "1"], "--rebalance-factor 1: must be greater than 1, or 0 for never."),
        (["--cell-selection", "best"], "'best' is not one of 'gr+', 'gr', 'dp', 'si', 'ra'"),
        (["--placement", "anywhere"], "no placer is called 'anywhere'"),
        (["--matchers", "5000"], "less than or equal to 1024"),
        (["--refresh-plan-factor", "-1"], "--refresh-plan-factor -1: must be greater than 1, or 0 for never."),
        (["--refresh-plan-factor", "0.9"], "--refresh-plan-factor 0.9: must be greater than 1"),
        (["--sink", "{posts}"], ": same as --posts. Choose another directory or topic."),
        (["--sink", "{posts}/out/../matches"], ": same as --posts"),
        (["--posts", "kafka://a:1,b:1/t", "--sink", "kafka://b:1/t"], "--sink kafka://b:1/t: same as --posts"),
    ],
)
def test_invalid_options_are_rejected_in_one_sentence(tmp_path, capsys, options, sentence):
    options = [option.replace("{posts}", str(tmp_path)) for option in options]
    assert run(["run", "--posts", str(tmp_path), "--state", str(tmp_path / "state"), *options]) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert sentence in printed.err
    assert not (tmp_path / "state").exists()


START = """
import sys
from tidings.cli.main import run
from tidings.spark import gateway

def print_modules(master):
    print([name for name in ("numpy", "pyarrow", "numba") if name in sys.modules])
    sys.exit()

gateway.start_jvm = print_modules
run(["run", "--posts", ".", "--state", "state"])
"""


def test_the_jvm_starts_before_large_packages_are_imported(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", START], cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=300
    )
    assert done.stdout == "[]\n", done.stderr
