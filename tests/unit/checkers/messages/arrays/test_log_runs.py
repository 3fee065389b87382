"""Runs of reading by arrays: a process forgets a key where it was assigned something else."""

from array import array
from collections.abc import Sequence
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from maxq.checkers.messages.arrays import log_runs
from maxq.checkers.messages.arrays.log_runs import POLLED, SENT, runs_of
from maxq.histories.columns.rows import OK
from maxq.histories.history import Reassigned

OPEN_LAST = 1_000  # after any index


def _table(random: Random) -> dict[str, Any]:
    """Elements of two keys as they are judged: those that never completed are last of their key."""
    rows = sorted(
        (key, random.random() < 0.1, random.randrange(100), random.randrange(4))
        for key in (0, 1) for _ in range(random.randrange(1, 30))
    )  # fmt: skip
    key, never, at, process = (np.array(column) for column in zip(*rows, strict=True))
    count = len(rows)
    return {
        "key": key, "open": never, "at": at, "begun": at, "process": process,
        "value": np.zeros(count, np.int64), "type": np.full(count, OK, np.int8),
        "kind": np.array(random.choices([SENT, POLLED], k=count), np.int8),
    }  # fmt: skip


def _eras(a: dict[str, Any], assigned: Sequence[tuple[int, int]]) -> list[list[int]]:
    """The elements of each process on each key, cut where it was assigned something between."""
    last: dict[tuple[int, int], tuple[int, list[int]]] = {}
    found: list[list[int]] = []
    columns = (a[name].tolist() for name in ("key", "process", "at", "open"))
    for number, (key, process, at, never) in enumerate(zip(*columns, strict=True)):
        at += OPEN_LAST * never
        before, era = last.get((key, process), (at, []))
        if not era or any(p == process and before < t < at for p, t in assigned):
            found.append(era := [])
        era.append(number)
        last[key, process] = at, era
    return sorted(found)


@pytest.mark.parametrize("at_a_time", [3, 1 << 18])
def test_an_era_ends_where_its_process_was_assigned_something(
    monkeypatch: pytest.MonkeyPatch, at_a_time: int
) -> None:
    monkeypatch.setattr(log_runs, "_SLICE", at_a_time)
    random, cut = Random(5), 0
    for _ in range(300):
        a = _table(random)
        # Where no element is: an operation is no assignment too.
        assigned = sorted(
            (random.randrange(3), t) for t in random.sample([*{*range(100)} - {*a["at"]}], 8)
        )
        who, when = (array("q", column) for column in zip(*assigned, strict=True))
        known: Any = SimpleNamespace(reassigned=Reassigned(who, when), plain=False)
        _, _, era = runs_of(a, known)
        mine = [np.flatnonzero(era == number).tolist() for number in range(int(era.max()) + 1)]
        assert sorted(mine) == _eras(a, assigned)
        cut += len(mine) > len({*zip(a["key"].tolist(), a["process"].tolist(), strict=True)})
    assert cut > 100
