"""What is wrong with `tidings run` is said in one sentence, before Spark is started."""

from __future__ import annotations

import pytest

from tidings.cli.duration import seconds
from tidings.cli.main import run
from tidings.errors import InputError


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--trigger", "often"], "--trigger 'often': write a number and ms, s, min, h or days"),
        (["--latency", "0 s"], "--latency '0 s': this is no time at all"),
        (["--relearn", "soon"], "--relearn 'soon': write a number"),
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


@pytest.mark.parametrize(
    ("written", "wanted"), [("500 ms", 0.5), ("5s", 5), (" 1.5 min ", 90), ("24 h", 86_400), ("7 days", 604_800)]
)
def test_times_are_written_as_people_do(written, wanted):
    assert seconds(written, "--x") == pytest.approx(wanted)


@pytest.mark.parametrize("written", ["", "5", "s", "-5 s", "5 moons", "5 s s", "1e3 s"])
def test_what_is_no_time_is_refused(written):
    with pytest.raises(InputError, match="--x"):
        seconds(written, "--x")
