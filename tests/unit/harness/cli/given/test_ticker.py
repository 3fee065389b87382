"""How far long work has come: a time that is left never grows."""

import pytest

from maxq.harness.cli.given.ticker import Steps

CLOCK = "maxq.harness.cli.given.ticker.time.monotonic"


def test_a_time_that_is_left_never_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(CLOCK, lambda: now[0])
    steps = Steps("runs", before=2)

    def at(second: float, done: int) -> str:
        now[0] = second
        return steps.line(done, 9)

    assert at(5, 2) == "2 of 9 runs done"
    assert at(10, 3) == "3 of 9 runs done, about 60 s left"
    assert at(30, 3) == "3 of 9 runs done, about 40 s left", "the same step takes longer"
    assert at(40, 4) == "4 of 9 runs done, about 30 s left", "not the 100 s that it seems now"
    assert at(75, 4) == "4 of 9 runs done", "it took longer than was said"
    assert at(76, 8) == "8 of 9 runs done"


def test_a_bound_is_said_to_be_one(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(CLOCK, lambda: now[0])
    bounded = Steps("trials", at_most=True)
    now[0] = 4.0
    assert bounded.line(1, 9) == "1 of at most 9 trials done, at most 32 s left"
