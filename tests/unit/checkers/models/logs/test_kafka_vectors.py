"""Vectors of the log workload, by the model: what Jepsen's checker says, but where ours differs."""

from typing import Any

import pytest
from history_recorder import Recorder
from test_durability_vectors import VECTORS, P, S, polled, sent

from maxq.checkers.models.judged import judge, taken_of
from maxq.checkers.models.logs import consumed
from maxq.checkers.models.logs.kafka import Kafka
from maxq.histories.history import History
from maxq.histories.op import HistoryError, Op

ALLOWED = {"int-send-skip"}  # others may send in between
OURS = {"K25": False}  # Jepsen's word too; the claim waits until a loss is proved


def names(history: History) -> set[str]:

    (calls,) = taken_of(Kafka(), history).calls.values()
    return {one.name for one in consumed.anomalies([calls.call(n) for n in range(calls.size)])}


@pytest.mark.parametrize(("name", "steps", "valid", "found"), VECTORS, ids=[v[0] for v in VECTORS])
def test_vector(name: str, steps: Any, valid: Any, found: dict[str, int]) -> None:
    recorder = Recorder()
    for step in steps:
        step(recorder)
    assert judge(Kafka(), recorder.history, lambda: False).valid == OURS.get(name, valid)
    assert names(recorder.history) == set(found) - ALLOWED


def test_k17_two_that_polled_each_other() -> None:
    recorder = Recorder()
    for p in (0, 1):
        recorder.begin(p, "txn", [["send", p, 10 * (p + 1)], ["poll"]])
    recorder.end("ok", 0, "txn", [sent(10, 0), polled(1, (0, 20))])
    recorder.end("ok", 1, "txn", [sent(20, 0, key=1), polled(0, (0, 10))])
    judged = judge(Kafka(), recorder.history, lambda: False)
    assert judged.valid is False
    assert judged.keys[0].decided.name == "G1c"
    assert judged.keys[0].smallest is not None
    assert len(judged.keys[0].smallest.begins) == 2


def test_a_loss_in_a_long_history_comes_down_to_who_shows_it() -> None:
    recorder = Recorder()
    steps = [S(0, n, n) for n in range(30)]
    for step in [*steps, P(1, *((n, n) for n in range(30) if n != 7)), P(2, (0, 0), (1, 1))]:
        step(recorder)
    (key,) = judge(Kafka(), recorder.history, lambda: False).keys
    assert key.decided.name == "lost-write"
    assert key.smallest is not None
    assert key.smallest.decided.name == "lost-write"


@pytest.mark.parametrize(
    "told", [[["poll", [1]]], [["poll", {"0": [[1]]}]], [["poll", {"0": [["x", 1]]}]], [["sent"]]]
)
def test_another_shape_is_named(told: Any) -> None:
    ops = [Op(type=kind, process=0, f="poll", value=value, index=at)  # type: ignore[arg-type]
           for at, (kind, value) in enumerate((("invoke", [["poll"]]), ("ok", told)))]  # fmt: skip
    with pytest.raises(HistoryError, match="op 0: "):
        judge(Kafka(), History(ops), lambda: False)


def test_what_nobody_polled_is_not_known() -> None:
    """Vector T1 also: one that failed tests nothing."""
    recorder = Recorder()
    S(0, 10, None, op_type="fail")(recorder)
    assert judge(Kafka(), recorder.history, lambda: False).valid == "unknown"
