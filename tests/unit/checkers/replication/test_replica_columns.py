"""S8, S8b, S9 by arrays: what they prove equals what rows say, and the rest is left to rows."""

from typing import Any

import pyarrow as pa
import pytest
from both_ways import compared
from generated_histories import judged
from replica_histories import pieces, replica_case

from maxq.checkers.core.api import Checker
from maxq.checkers.core.keyed import results_of
from maxq.checkers.core.stats import Stats
from maxq.checkers.evidence.observations import Sighting
from maxq.checkers.judgement.piecewise.by_columns import judge_batches
from maxq.checkers.judgement.piecewise.dealt import Request as Judging
from maxq.checkers.judgement.runner import check_all
from maxq.checkers.replication.replica_columns import may_part
from maxq.checkers.replication.replica_logs import partings, stores_of
from maxq.checkers.replication.replicas import Replicas
from maxq.histories.columns.log_texts import triples
from maxq.histories.columns.outline import batches_of
from maxq.histories.history import History
from maxq.histories.op import Op
from maxq.histories.tables import events_table, ops_from_events
from maxq.workloads.generated.asked.request import Request

SEEDS = 300


def test_stores_that_are_right_or_nearly_so_are_judged_alike() -> None:
    """Of both kinds there are many, or agreement would say little."""
    found = compared(Replicas(), map(replica_case, range(SEEDS)))
    assert found["sure"] > SEEDS / 2, found
    assert found["blamed"] > SEEDS / 10, found
    assert found["spared"] < found["sure"] / 4, found
    assert min(found["valid? True"], found["valid? False"]) > SEEDS / 10, found


@pytest.mark.parametrize("rows", [1, 7, 1_000])
def test_it_does_not_matter_where_batches_end(rows: int) -> None:
    checkers: list[Checker] = [Replicas(), Stats()]
    for seed in range(0, SEEDS, 15):
        history, context = replica_case(seed)
        table = events_table(history.ops, run_id="r")
        found = judge_batches(batches_of(table, rows), Judging(checkers, context)).results
        assert found == check_all(history, checkers, context), seed


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (",", " , "),
        ('"records"', '"\\u0072ecords"'),
        ('"node"', '"n\\u006fde"'),
        ('"records":', '"records":[[5,5,5]],"records":'),
        ("]]", "],[]]"),
    ],
)
def test_texts_that_are_not_ours_are_read_by_the_decoder(ours: str, theirs: str) -> None:
    checkers: list[Checker] = [Replicas(), Stats()]
    for seed in range(0, SEEDS, 25):
        history, context = replica_case(seed)
        table = events_table(history.ops, run_id="r")
        at = table.schema.get_field_index("value")
        values = [v if v is None or "digests" not in v else v.replace(ours, theirs)
                  for v in table["value"].to_pylist()]  # fmt: skip
        odd = table.set_column(at, table.schema.field(at), pa.array(values, pa.string()))
        expected = check_all(history_of(odd), checkers, context)
        judged_odd = judge_batches(batches_of(odd, 7), Judging(checkers, context)).results
        assert judged_odd == expected, seed


def history_of(table: pa.Table) -> History:
    return History(ops_from_events(table))


@pytest.mark.parametrize("kind", ["missing-in-replica", "log-diverged"])
def test_what_was_planted_is_found_by_both(kind: str) -> None:
    made = judged(Request(workload="queue", ops=600, seed=3, anomalies={kind: 1})).made
    _, context = replica_case(0)
    history = History(made.ops)
    checkers: list[Checker] = [Replicas(), Stats()]
    table = events_table(history.ops, run_id="r")
    found = judge_batches(batches_of(table, 500), Judging(checkers, context)).results
    assert found == check_all(history, checkers, context)
    assert kind in {a.name for v in found.verdicts for a in v.anomalies}


def test_a_set_of_which_nothing_is_wrong_never_has_its_rows_dealt_out() -> None:
    """What arrays say of it is all that is said: the counts are those of its rows."""
    made = judged(Request(workload="queue", ops=600, seed=3)).made
    history, (_, context) = History(made.ops), replica_case(0)
    assert compared(Replicas(), [(history, context)])["sure"] == 1
    check = Replicas()
    [stores] = results_of(check, history, check.prepare(history, context)).values()
    assert stores.looked.messages > 100


@pytest.mark.parametrize("late", [False, True])
def test_records_are_compared_as_by_rows(late: bool) -> None:
    """A log that ends elsewhere, or begins later, is the beginning of the longer one or is not."""
    log = [(1, (n % 2, n // 2, n)) for n in range(9)]
    for cut in range(1, 9):
        for changed in (-1, 0, cut - 1):
            mine = [(e, (k, o, v + 100 * (n == changed))) for n, (e, (k, o, v)) in enumerate(log)]
            a = pieces("b0", 0, log, begin=0)
            first = 1 if late and cut > 1 else 0
            b = pieces("b0", 1, mine[first:cut], begin=first)
            seen = [Sighting(2 * i, 2 * i + 1, 0, 0, p) for i, p in enumerate([*a, *b])]
            stores = stores_of(seen)
            expected = bool(partings(stores)[0])
            records = {s.at: _array(s.view.records) for s in seen}
            assert bool(partings(stores, may_part(records))[0]) == expected, (cut, changed)


def _array(records: Any) -> Any:
    found = triples("],[".join(",".join(map(str, r)) for r in records).encode())
    assert found is not None
    return found


def test_a_send_of_an_odd_shape_is_passed_over_where_no_store_was_read() -> None:
    ops = [Op("invoke", 0, "send", [["send", 0, 1]], index=0, time=0),
           Op("info", 0, "send", "odd", index=1, time=1)]  # fmt: skip
    found = compared(Replicas(), [(History(ops), replica_case(0)[1])])
    assert found["valid? unknown"] == 1
