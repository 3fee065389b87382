"""Assignments are rows of the keys that they list: verdicts are those of a judge who takes every
one for a row of every key."""

from collections.abc import Iterator, Sequence
from unittest import mock

import pytest
from history_recorder import Recorder
from queue_histories import queue_history

from maxq.checkers.core.api import Context, Verdict
from maxq.checkers.evidence.log import Assignment, LogOp, Step
from maxq.checkers.judgement.piecewise.by_columns import judge_batches
from maxq.checkers.judgement.piecewise.dealt import Request
from maxq.checkers.messages import durability
from maxq.checkers.messages.durability import Durability
from maxq.histories.columns.outline import batches_of
from maxq.histories.history import History
from maxq.histories.observed import ASSIGNMENTS, SEEK
from maxq.histories.tables import events_table

SEEDS = 400
DONE = ("ok", "info")


def plain(history: History) -> Verdict:
    """The verdict of that slow judge."""
    done = [op for op in history.of_f(*ASSIGNMENTS) if op.type in DONE]

    def steps_of_key(key: int) -> Iterator[Assignment]:
        for op in done:
            begun = history.invocation(op)
            at = op.index if begun is None else begun.index
            listed = key in (op.value or ())
            sought = listed and (op.ext or {}).get(SEEK) is True
            yield Assignment(op.index, at, int(op.process), op.type == "ok", sought, listed)

    class Slow(Durability):
        def judge(self, key: int, rows: Sequence[Step], *known: object) -> object:  # type: ignore[override]
            every: list[Step] = [*steps_of_key(key), *(r for r in rows if isinstance(r, LogOp))]
            every.sort(key=lambda step: (step.open, step.at))
            with mock.patch.object(durability, "steps_of", return_value=every):
                return super().judge(key, rows, *known)  # type: ignore[arg-type]

    return Slow().check(history, Context())


def by_columns(history: History, rows: int) -> Verdict:
    table = events_table(history.ops, run_id="r")
    (verdict,) = judge_batches(
        batches_of(table, rows), Request([Durability()], Context())
    ).results.verdicts
    return verdict


def test_what_is_found_does_not_depend_on_who_is_told_of_an_assignment() -> None:
    found, several = set[str](), 0
    for seed in range(SEEDS):
        history = queue_history(seed, odd=True)
        expected = plain(history)
        several += sum(op.f in ASSIGNMENTS and op.type in DONE for op in history) > 1
        found |= {anomaly.name for anomaly in expected.anomalies}
        assert Durability().check(history, Context()) == expected, seed
        assert by_columns(history, 1_000) == expected, seed
    assert several > SEEDS / 2
    assert {"int-poll-skip", "nonmonotonic-poll", "lost-tail", "lost-write"} <= found


def test_who_was_assigned_another_queue_may_begin_anew() -> None:
    """Arrays prove that, without a look at the rows."""
    r = Recorder()
    for value in (1, 2):
        r.send(0, value, value - 1)
    for key in (0, 1):
        r.assign(1, key)
        r.poll(1, (0, 1), (1, 2))
    with mock.patch.object(Durability, "judge", side_effect=AssertionError):
        verdict = by_columns(r.history, 1_000)
    assert verdict == plain(r.history)
    assert not verdict.anomalies


@pytest.mark.parametrize("rows", [1, 7])
def test_nor_on_where_batches_end(rows: int) -> None:
    for seed in range(0, SEEDS, 10):
        history = queue_history(seed, odd=True)
        assert by_columns(history, rows) == plain(history), seed
