"""Judged by columns a history has the verdict that it has when every operation is held."""

import re
from collections import Counter
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from engine_cases import Case, cases_of_tests, judged_locally, random_cases
from queue_histories import queue_history

from maxq.checkers.core.api import Context, TooLargeError
from maxq.checkers.judgement.piecewise.buckets import buckets_for
from maxq.checkers.judgement.piecewise.by_columns import MEMORY, judge_batches
from maxq.checkers.judgement.piecewise.dealt import Request
from maxq.checkers.judgement.piecewise.memory import Memory
from maxq.checkers.judgement.runner import Results, check_all
from maxq.checkers.messages.durability import Durability
from maxq.harness.run.judging import every_checker
from maxq.histories.columns.outline import batches_of
from maxq.histories.grounds import RUN
from maxq.histories.history import History
from maxq.histories.op import HistoryError, Op
from maxq.histories.tables import events_table

SEEDS = 150
SHORT = Memory(aim=1_200, most=1 << 40)


def judged(
    history: History,
    context: Context,
    rows: int = 1_000,
    table: Any = None,
    memory: Memory = MEMORY,
) -> Results:
    table = events_table(history.ops, run_id="r") if table is None else table
    request = Request(every_checker(), context)
    return judge_batches(batches_of(table, rows), request, lambda: memory).results


@pytest.fixture(scope="module")
def all_cases() -> dict[str, Case]:
    return {**cases_of_tests(), **random_cases()}


def test_every_case_is_judged_alike(all_cases: dict[str, Case]) -> None:
    expected = judged_locally(all_cases)
    assert any(results.breaches for results in expected.values())
    for name, case in all_cases.items():
        assert judged(case.history, case.context) == expected[name], name


@pytest.mark.parametrize(("rows", "every", "memory"), [(1, 24, MEMORY), (7, 6, SHORT)])
def test_it_does_not_matter_where_batches_end_and_in_how_many_buckets_keys_are(
    all_cases: dict[str, Case], rows: int, every: int, memory: Memory
) -> None:
    assert buckets_for(5, MEMORY.aim) == 1
    assert buckets_for(50, SHORT.aim) == 30
    assert buckets_for(10**9, SHORT.aim) == 500
    for name in sorted(all_cases)[::every]:
        case = all_cases[name]
        expected = check_all(case.history, every_checker(), case.context)
        assert judged(case.history, case.context, rows, memory=memory) == expected, name


def test_logs_that_are_right_or_nearly_so_are_judged_alike() -> None:
    """Of both kinds there are many, or agreement would say little."""
    answers: Counter[str] = Counter()
    quick = Durability.judge_groups

    def noted(self: Durability, *arguments: Any) -> Any:
        found = quick(self, *arguments)
        answers.update(type(answer).__name__ for answer in found)
        return found

    with mock.patch.object(Durability, "judge_groups", noted):
        for seed in range(SEEDS):
            history = queue_history(seed)
            assert judged(history, Context()) == check_all(history, every_checker(), Context()), (
                seed
            )
    assert min(answers["KeyVerdict"], answers["Unsure"]) > SEEDS / 4, answers


def test_a_check_whose_keys_do_not_fit_into_memory_says_so_and_others_judge() -> None:
    """By the largest of its keys; where nothing fits nothing is judged."""
    history = queue_history(1)
    expected = {v.checker: v for v in judged(history, Context()).verdicts}
    judged_ones = []
    for most in range(2_000, 200_000, 9_000):
        try:
            results = judged(history, Context(), memory=Memory(aim=1_200, most=most))
        except TooLargeError:
            continue
        others = [v for v in results.verdicts if v != expected[v.checker]]
        judged_ones.append(len(results.verdicts) - len(others))
        for verdict in others:
            assert verdict.valid == "unknown"
            whys = [verdict.gate, *(claim.why for claim in verdict.claim_verdicts)]
            assert any(
                re.search(r"take about \d+ MB of memory to judge, and \d MB", w) for w in whys
            )
    assert judged_ones == sorted(judged_ones)
    assert judged_ones[0] < judged_ones[-1] == len(expected)


def test_texts_that_are_not_ours_are_read_by_the_decoder() -> None:
    """With spaces, a number with an exponent, or escapes."""
    for seed in range(0, SEEDS, 10):
        history = queue_history(seed)
        table = events_table(history.ops, run_id="r")
        values = [None if v is None else v.replace(",", " , ").replace("send", "\\u0073end")
                  for v in table["value"].to_pylist()]  # fmt: skip
        odd = table.set_column(
            table.schema.get_field_index("value"), "value", pa.array(values, pa.string())
        )
        expected = check_all(history, every_checker(), Context())
        assert judged(history, Context(), table=odd.cast(table.schema)) == expected, seed


def test_a_row_that_is_no_operation_is_named() -> None:
    table = events_table([Op("invoke", 0, "send", [["send", 0, 1]], None, 0, 5)], run_id="r")
    at = table.schema.get_field_index("time")
    odd = table.set_column(at, table.schema.field(at), pa.array([-7], pa.int64()))
    with pytest.raises(HistoryError, match="impossible time: -7 ns"):
        judged(History(()), Context(), table=odd)


def test_grounds_of_no_known_shape_are_named_as_ever() -> None:
    history = History([Op("info", RUN, RUN, {"grounds": 7}, None, 0, 0)])
    with pytest.raises(HistoryError) as expected:
        check_all(history, every_checker(), Context())
    with pytest.raises(HistoryError) as found:
        judged(history, Context())
    assert str(found.value) == str(expected.value)
