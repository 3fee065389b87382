"""A search in depth: what it decides that one in breadth cannot hold, and what it says."""

from collections import Counter
from random import Random

from benchmarks.differential.asked import again, register
from benchmarks.differential.oracle import drawn
from benchmarks.differential.subjects import SUBJECTS, history
from maxq.checkers.linearizability.calls import OK, Calls, CallsMaker, Row
from maxq.checkers.linearizability.depth import Depth
from maxq.checkers.linearizability.judge import searched
from maxq.checkers.linearizability.search import in_breadth
from maxq.checkers.linearizability.space import Space
from maxq.checkers.models.registers import CasRegister, Register

WIDE = 24  # clients


def never() -> bool:
    return False


def wide(*, legal: bool) -> Calls:
    """Rounds in which every client writes one of four values at a time, and one then reads."""
    maker, random, at = CallsMaker(), Random(5), 0
    for number in range(20):
        written = [random.randrange(4) for _ in range(WIDE)]
        for process, value in enumerate(written):
            maker.add(Row(None, "write", value), at + process, at + 2 * WIDE - process, OK, process)
        read = random.choice(written) if legal or number < 19 else 9
        maker.add(Row(None, "read", result=read), at + 2 * WIDE + 1, at + 2 * WIDE + 2, OK, 0)
        at += 2 * WIDE + 3
    return maker.done()


def test_many_open_writes_of_few_values_are_decided() -> None:
    calls = wide(legal=True)
    found = Depth(Space(Register(), calls), never, 10_000).decided()
    assert found is not None
    assert found.valid is True
    assert found.frontier < 2 * calls.size


def test_it_gives_up_where_there_is_more_to_look_at_than_it_may() -> None:
    space = Space(Register(), wide(legal=False))
    assert Depth(space, never, 1_000).decided() is None
    assert Depth(space, lambda: True, 10**9).decided() is None


def test_what_it_blames_is_what_a_search_in_breadth_blames() -> None:
    seen = Counter[bool]()
    for name in ("register, values again", "cas-register, values again", "kv", "mutex"):
        for number in range(150):
            model = SUBJECTS[name].model
            calls = searched(model, history(name, number))
            model = model.within(calls)
            found = Depth(Space(model, calls), never, 100_000).decided()
            assert found is not None
            beside = in_breadth(model, calls, never)
            assert found.valid is beside.valid
            assert found.witness == beside.witness
            assert (
                found.why.partition(": the state was")[0]
                == beside.why.partition(": the state was")[0]
            )
            seen[found.valid is True] += 1
    assert min(seen.values()) > 50, seen


def test_a_legal_history_costs_no_more_configurations_than_it_has_calls() -> None:
    model = CasRegister()
    calls = drawn(register(again(), swaps=True), model, Random(3), info=0.1, wrong=0, length=2000)
    found = Depth(Space(model, searched(model, calls)), never, 2 * calls.size).decided()
    assert found is not None
    assert found.valid is True
