"""Acting: what slaves say in calm times, in which their master is gone or there."""

import msgspec
import pytest
from history_recorder import SECOND_NS, Recorder
from pair_histories import masterless

from maxq.checkers.core.api import Context, Verdict
from maxq.checkers.replication.pairs.acting import Acting

CONTEXT = Context(
    broker_sets={"b0": ("b0-0", "b0-1", "b0-2")},
    shrink_ns=8 * SECOND_NS,
    settings={"broker:enableSlaveActingMaster": "true", "broker:enableControllerMode": "false"},
)


def judge(r: Recorder) -> Verdict:
    return Acting().check(r.history, CONTEXT)


@pytest.mark.parametrize(
    ("answer", "claim", "name"),
    [((19, "b0-1", False), "A1", "nobody-acts"), ((19, "b0-2", True), "A2", "second-acts"),
     ((40, "b0-1", True), "A3", "acts-beside-master")],
)  # fmt: skip
def test_who_acts_where_it_must_not_is_blamed(
    answer: tuple[float, str, bool], claim: str, name: str
) -> None:
    verdict = judge(masterless(answer))
    assert [(a.claim, a.name) for a in verdict.anomalies] == [(claim, name)]
    assert verdict.of("broken") == (claim,)


def test_what_is_as_it_should_be_is_kept() -> None:
    r = masterless((19, "b0-1", True), (19, "b0-2", False), (40, "b0-1", False))
    assert judge(r).of("kept") == ("A1", "A2", "A3")


@pytest.mark.parametrize("answer", [(12, "b0-1", False), (31, "b0-1", True), (9, "b0-1", True)])
def test_within_the_bound_nothing_is_judged(answer: tuple[float, str, bool]) -> None:
    assert judge(masterless(answer)).of("no occasion") == ("A1", "A2", "A3")


@pytest.mark.parametrize(("silent_s", "broken"), [(7, ()), (9, ("A3",))])
def test_beside_a_master_that_is_isolated_a_slave_may_act(
    silent_s: int, broken: tuple[str, ...]
) -> None:
    """The bound counts from when it last said so."""
    r = masterless()
    r.act(70, "kill", "b0-0")
    r.act(71, "start", "b0-0")
    r.says(85, "b0-0", acting=False, isolated=True)
    r.says(85 + silent_s, "b0-1", acting=True)
    r.act(100, "pause", "n0")
    assert judge(r).of("broken") == broken


@pytest.mark.parametrize(("listed_s", "broken"), [(7, ()), (9, ("A3",))])
def test_where_it_does_not_say_so_a_master_that_is_not_listed_is_isolated(
    listed_s: int, broken: tuple[str, ...]
) -> None:
    """As RocketMQ's: the bound counts from when a name server last had none."""
    r = masterless()
    r.act(70, "kill", "b0-0")
    r.act(71, "start", "b0-0")
    r.says(84, "b0-0", acting=False, isolated=msgspec.UNSET)
    r.lists(85, "1")
    r.lists(85.5, "0", "1")
    r.says(85 + listed_s, "b0-1", acting=True)
    r.act(100, "pause", "n0")
    assert judge(r).of("broken") == broken


@pytest.mark.parametrize(
    ("isolated_s", "asked_s", "broken"),
    [(14, 21, ()), (14, 23, ("A1",)), (25, 31, ("A1",)), (9, 19, ("A1",))],
)
def test_a_slave_that_joins_its_group_has_the_bound_from_then_on(
    isolated_s: int, asked_s: int, broken: tuple[str, ...]
) -> None:
    """One that is isolated for longer than the recovery bound has a bug."""
    context = msgspec.structs.replace(CONTEXT, recovery_ns=20 * SECOND_NS)
    r = masterless()
    r.ops.clear()
    r.act(10, "kill", "b0-0")
    r.says(isolated_s, "b0-1", acting=False, isolated=True)
    r.says(asked_s, "b0-1", acting=False)
    r.act(60, "start", "b0-0")
    found = Acting().check(r.history, context)
    assert found.of("broken") == broken
