"""Pairing, views, and well-formedness W1 to W8."""

from typing import Any

import msgspec
import pytest

from maxq.histories.history import Breach, History, wellformed
from maxq.histories.op import NEMESIS, Op, OpType


def _ops(*rows: tuple[OpType, int | str, str]) -> list[Op]:
    return [Op(t, p, f, None, None, i, i) for i, (t, p, f) in enumerate(rows)]


WHOLE = _ops(
    ("invoke", 0, "send"),
    ("invoke", 1, "poll"),
    ("info", NEMESIS, "kill"),
    ("ok", 1, "poll"),
    ("info", 0, "send"),
    ("info", NEMESIS, "kill"),
    ("invoke", 2, "send"),
    ("info", NEMESIS, "start"),
)


def test_pairs_clients_by_process_and_the_nemesis_by_turns() -> None:
    history = History(WHOLE)

    assert [history.pair_index(op) for op in history] == [4, 3, 5, 1, 0, 2, -1, -1]
    assert history.completion(WHOLE[0]) == WHOLE[4]
    assert history.invocation(WHOLE[4]) == WHOLE[0]
    assert history.completion(WHOLE[6]) is None
    assert history.open_faults == (WHOLE[7],)
    assert len(history) == 8
    assert wellformed(history) == []


def test_views_keep_indices() -> None:
    """A filtered history is sparse; partners are still found."""
    history = History(WHOLE)

    assert [op.index for op in history.clients] == [0, 1, 3, 4, 6]
    assert [op.index for op in history.nemesis] == [2, 5, 7]
    assert [op.index for op in history.of_f("poll", "start")] == [1, 3, 7]
    sparse = history.filter(lambda op: op.process == 1)
    assert [op.index for op in sparse] == [1, 3]
    assert sparse.completion(sparse[1]) == sparse[3] == WHOLE[3]
    with pytest.raises(KeyError):
        sparse[0]


def _changed(ops: list[Op], at: int, **fields: Any) -> list[Op]:
    return [msgspec.structs.replace(op, **fields) if op.index == at else op for op in ops]


@pytest.mark.parametrize(
    ("ops", "breaches"),
    [
        (_changed(WHOLE, 3, index=1), [Breach("W1", 1, "index 1 after 2")]),
        (
            _changed(_ops(("invoke", 0, "send")), 0, type="begin"),
            [Breach("W2", 0, "unknown type 'begin'")],
        ),
        (
            _ops(("invoke", 0, "send"), ("invoke", 0, "send")),
            [Breach("W3", 1, "process 0 invokes while 0 is open")],
        ),
        (_ops(("ok", 0, "send")), [Breach("W4", 0, "process 0 completes what it did not invoke")]),
        (
            _ops(("invoke", 0, "send"), ("ok", 0, "poll")),
            [Breach("W5", 1, "completes 'poll', invoked 'send' at 0")],
        ),
        (
            _ops(("invoke", 0, "send"), ("info", 0, "send"), ("invoke", 0, "send")),
            [Breach("W6", 2, "process 0 goes on after an info completion", True)],
        ),
        (
            _ops(("invoke", NEMESIS, "kill")),
            [Breach("W7", 0, "nemesis is no client and used 'invoke'")],
        ),
        (_changed(WHOLE, 3, time=1.5), [Breach("W8", 3, "time is not an integer: 1.5")]),
        (_changed(WHOLE, 3, time=1), [Breach("W8", 3, "time 1 ns goes back, after 2 ns")]),
        (_changed(WHOLE, 3, time=-1), []),
    ],
)
def test_wellformed(ops: list[Op], breaches: list[Breach]) -> None:
    assert wellformed(History(ops)) == breaches
