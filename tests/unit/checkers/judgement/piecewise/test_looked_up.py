"""What is looked up beside an anomaly is looked for in as few pieces as can have it."""

from typing import Any

from history_recorder import Recorder

from maxq.checkers.core.api import Context
from maxq.checkers.judgement.piecewise.asks import Ask, Each, Reread, carried_out
from maxq.checkers.judgement.piecewise.by_columns import MEMORY, _answer, judging_of
from maxq.checkers.judgement.piecewise.dealt import Request
from maxq.checkers.judgement.piecewise.looked_up import _may_send, _senders_in
from maxq.checkers.messages.durability import Durability
from maxq.histories.columns.outline import batches_of
from maxq.histories.tables import events_table

ROWS = 20  # of a piece


def test_who_sent_a_message_is_looked_for_where_such_values_are_sent() -> None:
    recorder = Recorder()
    recorder.assign(1, 0, seek=True)
    for offset in range(3):
        recorder.send(0, 10 + offset, offset)
    recorder.poll(1, (0, 10), (2, 12))  # one was lost
    for offset in range(3, 60):
        recorder.send(0, 10 + offset, offset)
        recorder.poll(1, (offset, 10 + offset))
    reading = batches_of(events_table(recorder.ops, run_id="r"), ROWS)
    pieces: list[Any] = []

    def answer(ask: Ask) -> Any:
        if isinstance(ask, Each) and getattr(ask.look, "func", None) is _senders_in:
            pieces.append(ask.pieces)
        return reading if isinstance(ask, Reread) else _answer(reading, ask, lambda: MEMORY)

    judged = carried_out(judging_of(Request((Durability(),), Context())), answer)

    assert len(list(reading(None))) > 10
    assert [[*each] for each in pieces] == [[0, 11]]  # those lost, and the last that was read
    shown = {op.index for op in judged.history if op.f == "send"}
    wanted = {op.index for op in recorder.ops[:12] if op.f == "send"}
    assert wanted <= shown


def test_spans_leave_out_no_message() -> None:
    spans = {0: (10, 12), 1: (5, 5)}
    inside = {(0, 10), (0, 11), (0, 12), (1, 5)}
    assert all(_may_send(spans, {one}) for one in inside)
    assert not _may_send(spans, {(0, 9), (0, 13), (1, 10), (2, 11), (2, 0)})
