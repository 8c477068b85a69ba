"""Failpoints raise where they are armed, and nowhere else."""

from __future__ import annotations

import pytest

from tidings.failpoints import FailpointReached, arm, failpoint


def test_an_armed_failpoint_raises_in_its_batch_only():
    with arm("before-commit", 3) as point:
        failpoint("before-commit", 2)
        failpoint("after-commit", 3)
        assert not point.is_reached
        with pytest.raises(FailpointReached, match="before-commit@3"):
            failpoint("before-commit", 3)
        assert point.is_reached
    failpoint("before-commit", 3)


def test_a_failpoint_may_raise_in_every_batch_and_any_error():
    with arm("after-switch", error=OSError), pytest.raises(OSError, match="after-switch@17"):
        failpoint("after-switch", 17)


def test_an_unknown_failpoint_is_rejected():
    with pytest.raises(ValueError, match="failpoint 'before-lunch': unknown"):
        failpoint("before-lunch", 0)
    with pytest.raises(ValueError, match="unknown"), arm("before-lunch"):
        pass
