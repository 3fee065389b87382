"""Faults are put in and taken out again, and a wrong verdict is seen."""

import pytest

from benchmarks.differential.__main__ import TWO_KEYS, TWO_OPEN, caught, seen
from benchmarks.differential.faults import FAULTS, Fault, put_in
from benchmarks.differential.subjects import SUBJECTS


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.about)
def test_each_fault_has_a_place(fault: Fault) -> None:
    assert set(fault.subjects) <= set(SUBJECTS)
    with put_in(fault):
        pass


def test_a_fault_is_caught_and_gone_afterwards() -> None:
    (gate,) = (f for f in FAULTS if f.about == "a value written twice is no gate")
    assert caught(gate, 100)
    assert seen(gate.subjects[0], 0, 100).wrong == []


def test_a_fault_whose_place_is_gone_is_named() -> None:
    with pytest.raises(LookupError, match="'nothing like it' is there 0 times"):
        with put_in(Fault("", "judge", "decide", "nothing like it", "", ())):
            pass


def test_two_keys_are_judged_as_both_at_once_are() -> None:
    found = seen(TWO_KEYS, 0, 150)
    assert found.wrong == []
    assert found.counts[TWO_OPEN] > 20
