"""The other half of each operation, of a history that is read in pieces of any size."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxq.histories.columns.halves import with_halves
from maxq.histories.columns.outline import batches_of
from maxq.histories.history import History
from maxq.histories.op import Op
from maxq.histories.tables import events_table

TYPES = st.sampled_from(["invoke", "ok", "fail", "info"])
DID = st.tuples(st.sampled_from([0, 1, 5, "nemesis", "run"]), TYPES)


def ops_of(did: list[tuple[int | str, str]]) -> list[Op]:
    return [
        Op("info" if isinstance(who, str) else kind, who, "send", None, None, at, at, None)  # type: ignore[arg-type]
        for at, (who, kind) in enumerate(did)
    ]


@given(did=st.lists(DID, max_size=40), rows=st.integers(1, 12))
def test_halves_are_those_of_the_history_in_memory(
    did: list[tuple[int | str, str]], rows: int
) -> None:
    ops = ops_of(did)
    reading = batches_of(events_table(ops, run_id="r"), rows)
    found = [other for _, other in with_halves(lambda: reading(None))]

    history = History(ops)
    said = np.concatenate([np.zeros(0, np.int64), *found]).tolist()
    assert said == [history.pair_index(op) for op in history.ops]


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_halves_in_different_batches_find_each_other(rows: int) -> None:
    calls = [(0, "invoke"), (1, "invoke"), (0, "ok"), (1, "info")]
    ops = ops_of([("run", "info"), *calls, ("run", "info")])
    reading = batches_of(events_table(ops, run_id="r"), rows)
    found = [row for _, other in with_halves(lambda: reading(None)) for row in other.tolist()]
    assert found == [5, 3, 4, 1, 2, 0]
