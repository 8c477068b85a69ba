"""What is wrong with `tidings run` is said in one sentence, before Spark is started."""

from __future__ import annotations

import pytest

from tidings.cli.main import run


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--trigger", "often"], "--trigger 'often': not a duration"),
        (["--latency", "0 s"], "--latency '0 s': must be greater than 0"),
        (["--relearn", "soon"], "--relearn 'soon': not a duration"),
        (["--relearn", "24 h", "--plan", "replicated"], "--relearn is for the partitioned plan"),
        (["--relearn", "24 h", "--partitioner", "hash"], "there is nothing to learn for 'hash'"),
        (["--shed", "consensus", "--plan", "replicated"], "--shed withholds posts from matchers"),
        (["--shed", "sleep"], "'sleep' is not one of 'off', 'consensus', 'subscription', 'random'"),
        (["--partitioner", "clever"], "no plan called 'clever'; choose one of: hash, salb+"),
        (["--partitioner", "hybrid", "--shed", "random"], "'hybrid' is a plan of places; leave one out"),
        (["--adjust-factor", "1"], "--adjust-factor 1: give more than 1, or 0 for never."),
        (["--placement", "anywhere"], "There is no placer called 'anywhere'"),
        (["--matchers", "5000"], "less than or equal to 1024"),
        (["--relearn-factor", "-1"], "--relearn-factor -1: give more than 1, or 0 for never."),
        (["--relearn-factor", "0.9"], "--relearn-factor 0.9: give more than 1"),
        (["--deliver", "{posts}"], ": posts are taken from there; let matches go elsewhere."),
        (["--deliver", "{posts}/out/../matches"], ": posts are taken from there"),
        (["--posts", "kafka://a:1,b:1/t", "--deliver", "kafka://b:1/t"], "kafka://b:1/t: posts are taken from there"),
    ],
)
def test_each_mistake_is_named(tmp_path, capsys, options, sentence):
    options = [option.replace("{posts}", str(tmp_path)) for option in options]
    assert run(["run", "--posts", str(tmp_path), "--state", str(tmp_path / "state"), *options]) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert sentence in printed.err
    assert not (tmp_path / "state").exists()
