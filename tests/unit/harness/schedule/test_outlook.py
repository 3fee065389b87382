"""What a schedule will do, for people."""

import math
from itertools import pairwise

from maxq.harness.run.execute import planned
from maxq.harness.schedule.format import Act, When, Who
from maxq.harness.schedule.options import Options
from maxq.harness.schedule.outlook import in_order, times, whom


def test_acts_are_due_after_those_that_they_follow() -> None:
    acts = [
        Act(id="a", f="kill", when=When(at=2.0)),
        Act(id="b", f="start", when=When(at=1.5, after="a")),
        Act(id="c", f="pause", when=When(at=1.0, after="master-elected")),
        Act(id="d", f="pause", when=When(at=1.0)),
    ]
    assert times(acts) == [2.0, 3.5, math.inf, 1.0]
    assert [act.id for _, act in in_order(acts)] == ["d", "a", "b", "c"]


def test_whom_it_concerns_is_said_in_words() -> None:
    assert whom(Act(id="a", f="kill", who=Who(part="master"))) == "the master"
    assert whom(Act(id="a", f="kill", who=Who(part="controller", count=2))) == "2 x controller"
    assert whom(Act(id="a", f="kill", who=Who(nodes=("b0-1",)))) == "b0-1"
    assert whom(Act(id="a", f="start", who=Who(of="kill1"), args={"restart": True})) == (
        "ends kill1, restart"
    )


def test_an_interval_says_how_often_faults_strike() -> None:
    def strikes(interval_s: int) -> list[float]:
        options = Options(environment="simulated", seed=4, nemesis=("kill", "partition"),
                          time_limit_ns=120 * 10**9, interval_ns=interval_s * 10**9)  # fmt: skip
        return [at for at, act in in_order(planned(options).acts) if act.f == "kill"]

    often, seldom = strikes(5), strikes(30)
    assert 14 <= len(often) <= 20  # 5 s, more or less a quarter, and 1.5 s until it is up again
    assert 3 <= len(seldom) <= 5
    gaps = [b - a for a, b in pairwise(seldom)]
    assert all(0.75 * 30 <= gap - 1.5 <= 1.25 * 30 for gap in gaps)
