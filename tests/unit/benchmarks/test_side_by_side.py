"""Histories for the comparison with Porcupine are legal, and a table says what came of them."""

import math
from pathlib import Path

import numpy as np
import pytest

from benchmarks.made_histories import write_journal
from benchmarks.side_by_side import CASES, Compared, Side, judged, last_lines
from maxq.harness.run.rejudge import open_file
from maxq.histories.history import wellformed

SIZE = 60


@pytest.mark.parametrize("info", [0.0, 0.2])
@pytest.mark.parametrize("name", CASES)
def test_made_histories_are_legal(name: str, info: float, tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    case = CASES[name]
    write_journal(path, list(case.made(np.random.default_rng(1), SIZE)), 5, info)
    history = open_file(path).history
    assert sum(op.type == "invoke" for op in history) == SIZE
    assert (sum(op.type == "ok" for op in history) < SIZE) == (info > 0)
    assert not [b for b in wellformed(history) if not b.warning]
    assert judged(case.model, path).verdict == "True"


def row(size: int, theirs: Side, by: str = "fast test") -> Compared:
    return Compared("x", 5, 0.0, size, Side("True", by, 1.0, 0.01, 50), theirs)


def test_a_row_says_how_much_faster_and_what_is_missed() -> None:
    slow = row(10_000, Side("True", "", 1.0, 0.5, 900))
    assert slow.faster == 50
    assert slow.missed == "less than 100 times faster"
    assert not row(10_000, Side("True", "", 1.0, 0.5, 900), by="search").missed
    assert row(100, Side("False", "", 1.0, 0.5, 900)).missed == "a legal history was called invalid"
    over = row(100_000, Side("", "over 8 GiB"))
    assert math.isnan(over.faster)
    assert not over.missed
    assert [*last_lines([slow, over])] == [
        "| x | 5 | 0% | 10,000 | 0.01 | 50 | fast test | 0.5 | 900 | 50 | "
        "100,000: Porcupine (over 8 GiB) |"
    ]
