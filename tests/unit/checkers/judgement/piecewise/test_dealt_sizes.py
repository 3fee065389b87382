"""What every key must know of a history, what is held of it, and what a key's result is, does not
grow with its load."""

import pickle
from typing import NamedTuple

import pytest

from maxq.checkers.core.api import Context
from maxq.checkers.judgement.piecewise.asks import carried_out
from maxq.checkers.judgement.piecewise.by_columns import MEMORY, _answer, _found
from maxq.checkers.judgement.piecewise.dealt import Judging, Request, Small
from maxq.checkers.judgement.piecewise.pieces import Surveyor
from maxq.harness.run.judging import every_checker
from maxq.histories.columns.outline import Outline, batches_of
from maxq.histories.tables import events_table
from maxq.workloads.generated.asked.request import Request as Wanted
from maxq.workloads.generated.memory import made

FEW, MANY = 5_000, 50_000  # operations
GROWTH = 1.5  # of what should not grow; faults and elections do a little
LITTLE = 200  # bytes, below which growth says nothing
SMALL_SHARE = 0.01  # of all events
# These still name operations, clients or stored messages one by one.
GROWING = {"durability", "locks", "replicas", "answers"}


class Size(NamedTuple):
    """Of a history: its events and those that are held; of each check the bytes of what is known,
    and of a key's result."""

    events: int
    small: int
    known: dict[str, int]
    result: dict[str, float]


def size_of(workload: str, ops: int) -> Size:
    history = made(Wanted(workload=workload, ops=ops, seed=3))
    reading = batches_of(events_table(history.ops, run_id="r"))
    surveyed = [*map(Surveyor(), reading(None))]
    outline = Outline(piece.edges for piece in surveyed)
    held = [op for piece in surveyed for op in piece.small]
    small = Small(held, outline.totals, None, outline.reassigned)
    judging = Judging(Request(every_checker(), Context()), small)
    plan = _found(judging, small, outline, {})
    found = carried_out(plan, lambda ask: _answer(reading, ask, lambda: MEMORY))
    return Size(
        outline.rows,
        len(small.ops),
        {name: len(pickle.dumps(task.known)) for name, task in judging.tasks.items()},
        {
            name: len(pickle.dumps(results)) / len(results)
            for name, results in found.items()
            if isinstance(results, dict) and results
        },
    )


@pytest.mark.parametrize("workload", ["queue", "lock", "offsets"])
def test_ten_times_the_load_is_no_more_to_know_or_to_tell(workload: str) -> None:
    few, many = size_of(workload, FEW), size_of(workload, MANY)
    assert many.events > 8 * few.events
    assert many.small < SMALL_SHARE * many.events
    for name, size in many.known.items():
        assert size < max(LITTLE, GROWTH * few.known[name]), name
    for name, per_key in many.result.items():
        if name not in GROWING:
            assert per_key < max(LITTLE, GROWTH * few.result[name]), name
