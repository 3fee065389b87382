"""Counterexamples: short, illegal by themselves, and true of the whole history."""

import itertools
from collections.abc import Callable
from random import Random

import numpy as np
import pytest

from benchmarks.differential.oracle import exhaustive, said
from benchmarks.differential.subjects import SUBJECTS
from maxq.checkers.linearizability.calls import FAILED, OK, OPEN, Calls, Row, calls_of
from maxq.checkers.linearizability.decided import LEGAL, Decided
from maxq.checkers.linearizability.judge import decide
from maxq.checkers.linearizability.minimal import smallest
from maxq.checkers.linearizability.model import Model
from maxq.checkers.models.registers import CasRegister, Register, StrictCasRegister

INFO = (0.0, 0.15, 0.35)
CASES = [name for name, subject in SUBJECTS.items() if subject.search]


def looked(times: int) -> Callable[[], bool]:
    """A budget of so many looks."""
    left = iter(range(times))
    return lambda: next(left, None) is None


def small(name: str, number: int, wrong: float) -> tuple[Model, Calls]:
    random = Random(f"minimal {name} {number}")
    return SUBJECTS[name].model, SUBJECTS[name].made(random, INFO[number % len(INFO)], wrong)


def legal_part(model: Model, part: Calls, found: Decided) -> bool:
    """By every order, but where parts are not judged by the model itself."""
    own = model.of_parts(found)
    if own is model or found is HOLE:
        return exhaustive(model, part)
    return decide(own, part, lambda: False).valid is True


HOLE = Decided(False, "fast test", "hole")


@pytest.mark.parametrize(
    ("name", "found"),
    [*((name, LEGAL) for name in CASES), ("log", HOLE), ("log, appends again", HOLE)],
)
def test_what_is_left_of_a_legal_history_is_legal(name: str, found: Decided) -> None:
    """Whatever may be taken out: so a part that is illegal shows that the whole is."""
    seen = 0
    for number in range(60):
        model, calls = small(name, number, 0.0)
        if not exhaustive(model, calls):
            continue
        random, ties = Random(number), model.of_parts(found).ties(calls)
        for _ in range(4):
            keep = set(np.flatnonzero([random.random() < 0.5 for _ in range(calls.size)]).tolist())
            grown = True
            while grown:
                needed = {n for at in keep for n in ties.needs(at)}
                units = {ties.unit[at] for at in keep}
                more = needed | {at for at in range(calls.size) if ties.unit[at] in units}
                grown = not more <= keep
                keep |= more
            keep |= set(ties.silent)
            left = calls.take(np.array(sorted(keep), np.int64))
            assert legal_part(model, left, found), (said(calls), sorted(keep))
            seen += len(keep) < calls.size
    assert seen > 60


@pytest.mark.parametrize("name", CASES)
def test_a_counterexample_is_illegal_by_itself_and_nothing_of_it_can_go(name: str) -> None:
    seen = 0
    for number in range(60):
        model, calls = small(name, number, 0.2)
        found = decide(model, calls, lambda: False)
        if found.valid is not False:
            continue
        less = smallest(model, calls, found, looked(10_000))
        left = calls.take(np.isin(calls.begun, less.begins))
        assert left.size == len(less.begins) <= 20
        assert not exhaustive(model, left), (said(calls), less)
        assert set(less.decided.witness) <= set(less.begins)
        seen += 1
    assert seen > 5


def stale(length: int) -> Calls:
    """A long history of a register in which one read is stale."""
    rows = []
    for n in range(length):
        rows += [(Row(None, "write", n), 4 * n, 4 * n + 1, OK),
                 (Row(None, "read", result=n), 4 * n + 2, 4 * n + 3, OK)]  # fmt: skip
    rows.append((Row(None, "read", result=length // 2), 4 * length, 4 * length + 1, OK))
    return calls_of(rows)


def test_a_stale_read_in_a_long_history_comes_down_to_three_calls() -> None:
    calls = stale(2000)
    found = decide(Register(), calls, lambda: False)
    less = smallest(Register(), calls, found, looked(1000))
    kinds = [calls.call(int(np.flatnonzero(calls.begun == b)[0])).kind for b in less.begins]
    assert sorted(kinds) == ["read", "write", "write"]


def test_a_used_up_budget_leaves_the_shortest_that_was_found() -> None:
    calls = stale(40)
    found = decide(Register(), calls, lambda: False)
    less = smallest(Register(), calls, found, lambda: True)
    assert len(less.begins) == calls.size
    assert less.decided == found


def test_a_read_keeps_the_write_of_its_value() -> None:
    """Without it the read would be called made up, which it is not."""
    calls = calls_of([
        (Row(None, "write", 1), 0, 1, OK), (Row(None, "write", 2), 2, 3, OK),
        (Row(None, "write", 1), 4, 5, OK), (Row(None, "write", 2), 6, 7, OK),
        (Row(None, "read", result=1), 8, 9, OK),
    ])  # fmt: skip
    found = decide(CasRegister(), calls, lambda: False)
    less = smallest(CasRegister(), calls, found, looked(1000))
    assert (less.begins, less.decided.name) == ((4, 6, 8), "stale-read")


def test_a_refused_cas_keeps_what_may_have_been_there() -> None:
    calls = calls_of([
        (Row(None, "write", 1), 0, 1, OK), (Row(None, "write", 2), 2, 3, OPEN),
        (Row(None, "cas", 1, other=3), 4, 5, FAILED), (Row(None, "read", result=1), 6, 7, OK),
    ])  # fmt: skip
    ties = StrictCasRegister().ties(calls)
    assert sorted(ties.needs(2)) == [0, 1]
    assert sorted(ties.needs(3)) == [0]


def test_the_same_history_gives_the_same_counterexample() -> None:
    for name, number in itertools.product(("fifo-queue", "kv"), range(10)):
        model, calls = small(name, number, 0.3)
        found = decide(model, calls, lambda: False)
        if found.valid is False:
            every = {smallest(model, calls, found, looked(10_000)) for _ in range(2)}
            assert len(every) == 1
