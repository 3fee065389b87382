"""Times of a long history are those of each so many, and what is counted is exact."""

from unittest import mock

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from maxq.histories.columns import timings
from maxq.histories.columns.outline import batches_of, outline_of, rows_of
from maxq.histories.history import History
from maxq.histories.op import Op, OpType
from maxq.histories.tables import events_table


def calls(count: int) -> list[Op]:
    """So many sends of two processes, each slower than the one before."""
    ops: list[Op] = []
    for number in range(count):
        begun = 1000 * number
        kind: OpType = "info" if number % 5 == 4 else "ok"
        ops.append(Op("invoke", number, "send", [["send", 0, number]], None, 2 * number, begun))
        ops.append(Op(kind, number, "send", [["send", 0, number]], None, 2 * number + 1,
                      begun + number))  # fmt: skip
    return ops


def counted(ops: list[Op], rows: int) -> timings.Timing:
    reading = batches_of(events_table(ops, run_id="r"), rows)
    (found,) = timings.timings_in(rows_of(reading, outline_of(reading(None)))).kinds
    return found


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 60), st.integers(1, 25), st.integers(1, 20))
def test_it_does_not_matter_where_pieces_end(count: int, rows: int, kept: int) -> None:
    ops = calls(count)
    with mock.patch.object(timings, "KEPT_MAX", kept):
        one, whole = counted(ops, rows), timings._timings(History(ops)).kinds[0]
    assert (one.invoked, one.counts, one.slowest, one.every) == (
        count, {"ok": count - count // 5, "refused": 0, "info": count // 5, "fail": 0},
        whole.slowest, whole.every,
    )  # fmt: skip
    assert one.slowest_ns == count - 1
    assert count // one.every <= kept
    for outcome in timings.OUTCOMES:
        for own, theirs in ((one.took, whole.took), (one.begun, whole.begun)):
            assert np.array_equal(own[outcome], theirs[outcome])
        kept_of = [op.time - begun.time for begun, op in zip(ops[::2], ops[1::2], strict=True)]
        mine = [
            t
            for n, t in enumerate(kept_of)
            if n % one.every == 0 and ops[2 * n + 1].type == outcome
        ]
        assert one.took[outcome].tolist() == mine
