"""The loop of experiments: what is next, how many at a time, and when it ends."""

from collections.abc import Collection
from concurrent.futures import Executor, Future
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from maxq.harness.experiments import engine
from maxq.harness.experiments.engine import run_missing


class Numbers:
    """Trials 0, 1, … of which so many are missing."""

    def __init__(self, count: int) -> None:
        self.left = list(range(count))
        self.beside: list[list[int]] = []  # what was at work when each began

    def next_trial(self, at_work: Collection[int]) -> int | None:
        if not self.left:
            return None
        self.beside.append(sorted(at_work))
        return self.left.pop(0)


def test_each_is_run_once_and_given_back_with_its_result(tmp_path: Path) -> None:
    done = run_missing(Numbers(3).next_trial, lambda n: n * n, tmp_path, inline=True)
    assert list(done) == [(0, 0), (1, 1), (2, 4)]
    assert list(tmp_path.iterdir()) == [], "no temporary file stays"


def test_what_is_taken_decides_what_is_next(tmp_path: Path) -> None:
    taken: list[int] = []

    def until_three(_: Collection[int]) -> int | None:
        return len(taken) if len(taken) < 3 else None

    for trial, _ in run_missing(until_three, lambda n: n, tmp_path, inline=True):
        taken.append(trial)
    assert taken == [0, 1, 2]


def test_none_begins_after_the_budget(tmp_path: Path) -> None:
    numbers = Numbers(2)
    assert list(run_missing(numbers.next_trial, str, tmp_path, inline=True, budget_ns=0)) == []
    assert numbers.left == [0, 1]


def test_an_interrupt_is_raised_and_ends_it(tmp_path: Path) -> None:
    def interrupted(_: int) -> int:
        raise KeyboardInterrupt

    numbers = Numbers(2)
    with pytest.raises(KeyboardInterrupt):
        list(run_missing(numbers.next_trial, interrupted, tmp_path, inline=True))
    assert numbers.left == [1]


def test_a_long_one_holds_up_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = Future[int]()

    class Pool(Executor):
        """Ends 0 together with the last."""

        def submit(self, _: Any, /, *args: Any, **__: Any) -> Future[Any]:
            [number] = args
            if number == 0:
                return long
            done = Future[int]()
            done.set_result(number)
            if number == 4:
                long.set_result(0)
            return done

    monkeypatch.setattr(engine, "workers", lambda *_, **__: nullcontext(Pool()))
    numbers = Numbers(5)
    ended = [trial for trial, _ in run_missing(numbers.next_trial, str, tmp_path, jobs=2)]
    assert numbers.beside == [[], [0], [0], [0], [0]]
    assert sorted(ended) == [0, 1, 2, 3, 4]
    assert ended[:3] == [1, 2, 3]
