"""A history in pieces is paired, and found well-formed or not, as the whole is."""

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from maxq.histories.columns.outline import Outline, batches_of, breaches_of, outline_of, rows_of
from maxq.histories.columns.timings import timings_in, timings_of
from maxq.histories.history import History, wellformed
from maxq.histories.observed import ACQUIRE, NOT_GRANTED
from maxq.histories.op import NEMESIS, Op
from maxq.histories.tables import events_table

TYPES: Any = st.sampled_from(("invoke", "ok", "fail", "info"))


@st.composite
def _histories(draw: st.DrawFn) -> History:
    """Mostly orderly ones; some have odd indices, times, types or processes that go on."""
    orderly = draw(st.booleans())
    ops: list[Op] = []
    under_way: dict[int, str] = {}
    fresh = 4
    for at in range(draw(st.integers(0, 30))):
        process: Any = draw(st.sampled_from((NEMESIS, *range(fresh))))
        f = draw(st.sampled_from(("send", "poll", ACQUIRE)))
        kind: Any = draw(TYPES)
        index, time = at * 2, draw(st.sampled_from((at * 10, -1)))
        if orderly and process == NEMESIS:
            kind, f = "info", "kill"
        elif orderly and process in under_way:
            kind, f = draw(st.sampled_from(("ok", "fail", "info"))), under_way.pop(process)
            fresh += kind == "info"
            under_way |= {process: ""} if kind == "info" else {}
        elif orderly:
            kind, under_way[process] = "invoke", f
        if orderly and f == "":
            continue  # that process is gone
        if not orderly and draw(st.integers(0, 9)) == 0:
            index, time = draw(st.integers(-1, 60)), draw(st.integers(-1, 300))
        error = draw(st.sampled_from((None, NOT_GRANTED, "timeout")))
        value = draw(st.sampled_from((None, 3, [["send", 1, at]])))
        ops.append(Op(kind, process, f, value, error, index, time))
    return History(ops)


@given(_histories(), st.integers(1, 9))
@settings(deadline=None, max_examples=300)
def test_pieces_are_joined_as_the_whole_is_paired(history: History, size: int) -> None:
    reading = batches_of(events_table(history.ops, run_id="r"), size)
    outline = outline_of(reading(None))
    whole = [*zip(history.ops, history._partners, strict=True)]
    at = 0
    for rows in rows_of(reading, outline):
        values = rows.begun_values(np.arange(len(rows))).to_pylist()
        for row, (_, op, begun) in enumerate(rows.events(range(len(rows)))):
            expected, other = whole[at]
            assert op == expected
            if op.is_client and op.type != "invoke" and other >= 0:
                asked = history.ops[other]
                assert begun is not None
                assert (begun.index, begun.time, begun.value) == (
                    asked.index,
                    asked.time,
                    asked.value,
                )
                assert (values[row] is None) == (asked.value is None)
            elif op.is_client:
                assert begun is None
                assert values[row] is None
            lone = op.is_client and op.type == "invoke" and other < 0
            assert bool(rows.open[row]) == lone or _repeated(history, op)
            at += 1
    assert at == len(whole)
    assert outline.totals == history.totals


def _repeated(history: History, op: Op) -> bool:
    """Whether an index is not of one operation, so that nobody is sure which never completed."""
    return sum(other.index == op.index for other in history.ops) > 1


@given(_histories(), st.integers(1, 9))
@settings(deadline=None, max_examples=300)
def test_breaches_are_those_of_the_whole(history: History, size: int) -> None:
    reading = batches_of(events_table(history.ops, run_id="r"), size)
    outline = outline_of(reading(None))
    expected = wellformed(history)
    assert breaches_of(reading, outline) == expected
    assert outline.sound == (not expected)


@given(_histories(), st.integers(1, 9))
@settings(deadline=None, max_examples=200)
def test_timings_are_those_of_the_whole(history: History, size: int) -> None:
    assume(all(breach.warning for breach in wellformed(history)))
    reading = batches_of(events_table(history.ops, run_id="r"), size)
    found = timings_in(rows_of(reading, outline_of(reading(None))))
    expected = timings_of(history)
    assert repr(found) == repr(expected)


def test_what_is_held_does_not_grow_with_operations() -> None:
    """Sixteen times the operations of as many clients: what joins two pieces stays as it is."""

    def widest(count: int) -> int:
        ops = []
        for at in range(count):
            process = at % 5
            kind: Any = "invoke" if at // 5 % 2 == 0 else "ok"
            ops.append(Op(kind, process, "send", [["send", 0, at]], None, at, at))
        outline: Outline = outline_of(batches_of(events_table(ops, run_id="r"), 45)(None))
        return max(len(before.process) for before in outline.before)

    assert widest(170) == widest(170 * 16) == 5


@pytest.mark.parametrize("wanted", [[0], [5, 19], [20], [99]])
def test_pieces_are_found_by_index(wanted: list[int]) -> None:
    ops = [Op("invoke", at, "send", None, None, at * 2, at) for at in range(20)]
    outline = outline_of(batches_of(events_table(ops, run_id="r"), 4)(None))
    expected = {at // 8 for at in wanted if at < 39}
    assert set(outline.pieces_of(wanted)) == expected
