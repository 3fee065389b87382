"""Registers whose calls are surely right, by few passes: all of them, and no other one."""

from collections import Counter

from benchmarks.differential.subjects import SUBJECTS, history
from maxq.checkers.linearizability.calls import NOTHING
from maxq.checkers.linearizability.exact.plain_registers import surely_legal


def test_what_is_called_right_is_right_and_little_else_is_left() -> None:
    seen = Counter[tuple[bool, bool]]()
    for name in ("register", "register, values again", "register, initial value written"):
        subject = SUBJECTS[name]
        for number in range(600):
            calls = history(name, number)
            legal = subject.legal(subject.model, calls) is True
            sure = surely_legal(calls, NOTHING)
            assert legal or not sure
            seen[legal, sure] += name == "register"
    assert seen[False, False] > 100
    assert seen[True, True] > 200
    assert seen[True, False] < 60, "calls that failed, or nothing was written"
