"""Fast tests, dispatch and search against every order tried, on small histories.

``python -m benchmarks.differential`` does the same on many more.
"""

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.differential.asked import again, register
from benchmarks.differential.oracle import drawn
from benchmarks.differential.subjects import SUBJECTS, compared, history
from maxq.checkers.linearizability.judge import searched
from maxq.checkers.linearizability.search import search
from maxq.checkers.models.registers import CasRegister

COUNT = 200


@pytest.mark.parametrize("name", SUBJECTS)
def test_they_say_what_trying_every_order_says(name: str) -> None:
    subject, seen = SUBJECTS[name], Counter[object]()
    for number in range(COUNT):
        calls = history(name, number)
        found = compared(subject, calls)
        assert not found.wrong
        if found.fast is not None and found.fast.valid is False:
            assert set(found.fast.witness) <= set(calls.begun.tolist())
            assert 1 <= len(found.fast.witness) <= 4, found
            assert found.fast.why, found
        seen[found.legal] += 1
        seen["fast"] += found.fast is not None
    assert min(seen[True], seen[False]) > COUNT / 20, seen
    assert not subject.always or seen["fast"] == COUNT, "it decides every history of its kind"


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(sorted(SUBJECTS)), st.integers(min_value=0))
def test_and_on_histories_that_nobody_chose(name: str, number: int) -> None:
    assert not compared(SUBJECTS[name], history(name, number)).wrong


def test_a_budget_that_is_used_up_says_unknown_and_where() -> None:
    calls = drawn(register(again(), swaps=True), CasRegister(), Random(3), info=0, wrong=0,
                  length=3000)  # fmt: skip
    found = search(CasRegister(), searched(CasRegister(), calls), lambda: True)
    assert found.valid == "unknown"
    assert "the budget was used up at the call that began at op" in found.why
    assert found.frontier > 0
