"""What is wrong with few messages of a long log is found without a look at its other rows."""

import numpy as np
from history_recorder import Recorder

from maxq.checkers.core.api import Context
from maxq.checkers.core.columnar import KeyArrays, Unsure
from maxq.checkers.messages.durability import Durability, KeyVerdict
from maxq.histories.columns.outline import batches_of, outline_of, rows_of
from maxq.histories.history import History
from maxq.histories.tables import events_table

MESSAGES, SHOWN = 400, 4


def _answers(lost: set[int]) -> list[KeyVerdict | Unsure]:
    """What arrays say of a log whose reader was never shown some messages."""
    recorder = Recorder()
    for value in range(MESSAGES):
        recorder.op("ok", 0, "send", [["send", 0, value]], [["send", 0, [value, value]]])
    for first in range(0, MESSAGES, SHOWN):
        shown = [[v, v] for v in range(first, first + SHOWN) if v not in lost]
        recorder.op("ok", 1, "poll", [["poll"]], [["poll", {0: shown}]])
    history, check, arrays = History(recorder.ops), Durability(), KeyArrays()
    known = check.prepare(history, Context())
    reading = batches_of(events_table(history.ops, run_id="r"))
    for rows in rows_of(reading, outline_of(reading(None))):
        arrays.take(check.columns(rows, np.flatnonzero(rows.of(check.reads)), known))
    return list(check.judge_groups(arrays.groups(), known))


def test_of_a_lost_message_the_rows_of_few_operations_are_asked_for() -> None:
    (answer,) = _answers({101})

    assert isinstance(answer, Unsure)
    assert answer.ops is not None
    assert len(answer.ops) < 10
    lost, unseen = answer.more.findings
    assert (lost.name, lost.detail["value"], lost.detail["index"]) == ("lost-write", 101, 101)
    assert unseen.name == "unseen"
    assert [f.name for f in answer.more.orders] == ["int-poll-skip"]
