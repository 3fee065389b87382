"""`--initial any`: legal if the history is legal for some first value."""

from random import Random
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from maxq.checkers.linearizability.model import SHOWN_FIRST
from maxq.checkers.models.intake import Intake
from maxq.checkers.models.judged import judge
from maxq.checkers.models.registers import CasRegister
from maxq.checkers.models.transactions import RwRegister
from maxq.histories.history import History
from maxq.histories.op import Op


def verdict(model: Any, ops: list[Op], initial: Any) -> object:
    return judge(model, History(ops), lambda: False, how=Intake(initial=initial)).valid


def calls(rng: Random) -> list[Op]:
    """Overlapping calls of three clients on a register that began with 7, answered nearly as one
    would; each value is written once."""
    value, new, ops, waiting = 7, 0, list[Op](), dict[int, Op]()
    for _ in range(rng.randrange(4, 14)):
        process = rng.randrange(3)
        if process not in waiting:
            new += 1
            f, asked = rng.choice((("read", None), ("write", new), ("cas", [value, new])))
            waiting[process] = Op("invoke", process, f, asked, index=len(ops))
            ops.append(waiting[process])
            continue
        begun = waiting.pop(process)
        shown = value if rng.randrange(8) else rng.randrange(9)
        if begun.f == "read":
            ops.append(Op("ok", process, "read", shown, index=len(ops)))
        elif begun.f == "cas" and begun.value[0] != value:
            ops.append(Op("fail", process, "cas", begun.value, index=len(ops)))
        else:
            value = begun.value if begun.f == "write" else begun.value[1]
            ops.append(Op("ok", process, begun.f, begun.value, index=len(ops)))
    return ops


@given(st.integers(0, 99_999))
@example(582)  # the first value is also that of a write without an answer
@settings(max_examples=150, deadline=None)
def test_any_first_value_is_some_first_value(seed: int) -> None:
    ops = calls(Random(seed))
    each = [verdict(CasRegister(), ops, first) for first in (None, *range(15))]
    found = verdict(CasRegister(), ops, SHOWN_FIRST)
    if found != "unknown":  # nothing could have shown a breach
        assert found is (True in each)


@given(st.dictionaries(st.sampled_from("abc"), st.integers(100, 105), min_size=1),
       st.integers(0, 99_999))  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_transactions_on_keys_that_were_filled_before(begun: dict[str, int], seed: int) -> None:
    rng, have, ops = Random(seed), dict(begun), list[Op]()
    for n in range(12):
        key, write = rng.choice("abc"), rng.randrange(2)
        said = [["r", key, have.get(key)], *([["w", key, n]] if write else ())]
        have |= {key: n} if write else {}
        asked = [["r", key, None], *said[1:]]
        ops += [
            Op("invoke", 0, "txn", asked, index=2 * n),
            Op("ok", 0, "txn", said, index=2 * n + 1),
        ]
    assert verdict(RwRegister(), ops, SHOWN_FIRST) in (True, "unknown")
    reads = [op for op in ops if op.type == "ok" and op.value[0][2] in range(100, 106)]
    if reads:  # as a second first value of a key that has shown one
        last, again = ops[-1], [["r", reads[0].value[0][1], 999]]
        two = [*ops, Op("invoke", 0, "txn", [["r", again[0][1], None]], index=last.index + 1),
               Op("ok", 0, "txn", again, index=last.index + 2)]  # fmt: skip
        assert verdict(RwRegister(), two, SHOWN_FIRST) is False
