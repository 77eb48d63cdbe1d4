"""Faults affect the requests for which they were planned."""

import pytest

from reconciler.sandbox.faults import FOREVER, CutAfter, Delay, Fault, Faults, Slow

CUT, WAIT = CutAfter(), Delay(seconds=1.0)


def test_a_fault_skips_some_requests_and_affects_some() -> None:
    faults = Faults()
    faults.add(Fault(effect=CUT, skip=2, times=2))
    assert [faults.effects_for(3, 1) for _ in range(6)] == [(), (), (CUT,), (CUT,), (), ()]


def test_faults_are_applied_in_order_until_they_are_cleared() -> None:
    faults = Faults()
    faults.add(Fault(effect=WAIT, times=FOREVER))
    faults.add(Fault(effect=CUT))
    assert faults.effects_for(3, 1) == (WAIT, CUT)
    assert [faults.effects_for(3, 1) for _ in range(3)] == [(WAIT,)] * 3
    faults.clear()
    assert faults.effects_for(3, 1) == ()


def test_a_piece_has_at_least_one_byte() -> None:
    with pytest.raises(ValueError, match="one byte"):
        Slow(size=0, seconds=0.1)
