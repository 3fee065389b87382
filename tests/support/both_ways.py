"""Judges histories by arrays and row by row, and compares all that is said."""

from collections import Counter
from collections.abc import Iterable
from typing import Any
from unittest import mock

from maxq.checkers.core.api import Context
from maxq.checkers.core.columnar import Groups, Unsure, judged_groups
from maxq.checkers.core.keyed import results_of
from maxq.checkers.core.stats import Stats
from maxq.checkers.judgement.piecewise import pieces
from maxq.checkers.judgement.piecewise.by_columns import judge_batches
from maxq.checkers.judgement.piecewise.dealt import Request
from maxq.checkers.judgement.runner import check_all
from maxq.histories.columns.outline import batches_of
from maxq.histories.history import History
from maxq.histories.op import HistoryError
from maxq.histories.tables import events_table

BATCH_ROWS = (1_000, 50, 7)  # in turn


class Compared(Counter[str]):
    """How many keys were `sure`, how many of those left to their rows were `blamed`, how many were
    `spared`; and how many verdicts were which, as `valid? True`."""


def compared(check: Any, histories: Iterable[tuple[History, Context]]) -> Compared:
    """Judge histories both ways by one check; what a key's arrays prove must equal its rows' too.

    Raises:
        AssertionError: something differs.
    """
    found = Compared()
    answers = dict[Any, Any]()

    def noted(check: Any, groups: Groups, known: Any) -> list[Any]:
        found = judged_groups(check, groups, known)
        answers.update(zip(groups.keys, found, strict=True))
        return found

    checkers = [check, Stats()]
    with mock.patch.object(pieces, "judged_groups", noted):
        for number, (history, context) in enumerate(histories):
            answers.clear()
            table = events_table(history.ops, run_id="r")
            batches = batches_of(table, BATCH_ROWS[number % len(BATCH_ROWS)])
            judged = judge_batches(batches, Request(checkers, context)).results
            expected = check_all(history, checkers, context)
            assert judged == expected, number
            found[f"valid? {expected.valid}"] += 1
            try:
                by_rows = results_of(check, history, check.prepare(history, context))
            except HistoryError:
                continue
            for key, answer in answers.items():
                found[_compared(answer, by_rows[key])] += 1
    return found


def _compared(answer: Any, expected: Any) -> str:
    if isinstance(answer, Unsure):
        found = expected.findings if hasattr(expected, "findings") else expected.found
        return "blamed" if found else "spared"
    assert answer == expected
    return "sure"
