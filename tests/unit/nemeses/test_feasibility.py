"""What an environment or a cluster does not allow is refused by name, before a run begins."""

import re
from typing import Any

import pytest
from struck_cluster import TRIO, FakeCluster

from maxq.harness.contracts.environment import (
    REAL_ONLY,
    SIMULATED_ONLY,
    Capability,
    Lack,
    MissingCapability,
)
from maxq.harness.environments import local
from maxq.harness.environments.local import LocalEnvironment
from maxq.harness.schedule.format import Act, Schedule, ScheduleError, Who
from maxq.nemeses.catalogue import NO_FAULT, fault_names, kinds_of
from maxq.nemeses.feasibility import check, stand_ins


class Weak:
    """An environment that can do little."""

    name = "weak"
    capabilities = frozenset({Capability.KILL, Capability.RESTART})

    def lacking(self) -> dict[Capability, str]:
        return {Capability.POWER_LOSS: "no disk of its own"}


class Able(Weak):
    capabilities = frozenset(Capability)


def checked(*acts: Act) -> None:
    environment: Any = Weak()
    check(Schedule(acts=acts), FakeCluster(TRIO), environment)


def test_what_an_environment_lacks_is_refused_by_name() -> None:
    with pytest.raises(MissingCapability) as caught:
        checked(Act(id="k", f="kill"), Act(id="p", f="power-loss"))
    said = "weak cannot do power-loss, which act p (power-loss) needs: no disk of its own"
    assert str(caught.value) == said
    with pytest.raises(MissingCapability, match=r"cannot do cut, which act c \(start-partition\)"):
        checked(Act(id="c", f="start-partition"))


def test_whom_there_is_not_is_refused_by_name() -> None:
    with pytest.raises(MissingCapability, match=r"act k \(kill\) concerns b7-0, which is not"):
        checked(Act(id="k", f="kill", who=Who(nodes=("b0-0", "b7-0"))))


def test_an_act_that_there_is_not_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(
        ScheduleError, match=r"k: no act 'murder'; there are: .*change-address, .* start"
    ):
        checked(Act(id="k", f="murder"))


@pytest.mark.parametrize("who", [Who(part="mastre"), Who(part="brokers")])
def test_a_part_that_there_is_not_is_refused(who: Who) -> None:
    with pytest.raises(
        ScheduleError, match=f"k: no part '{who.part}'; there are: acting-master, broker, .*last-"
    ):
        checked(Act(id="k", f="kill", who=who))


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({"from": "slaves"}, "c: cut from 'slaves', which is none of rest, brokers, "),
        ({"from": ["c0", "c9"]}, "c: cut from 'c9', which is no node"),
        ({"from": 7}, "c: cut from 7, which is none of"),
        ({"ways": "into"}, "c: ways 'into' is none of both, in, out"),
        ({"shape": "thirds"}, "c: no shape 'thirds'; there are: bridge, halves, "),
        ({"clients": "apart"}, "c: clients 'apart' is none of both, with, against"),
    ],
)
def test_a_cut_that_nobody_can_make_is_refused(args: dict[str, Any], said: str) -> None:
    class Cutting(Weak):
        capabilities = frozenset(Capability)

    environment: Any = Cutting()
    act = Act(id="c", f="start-partition", who=Who(part="master"), args=args)
    with pytest.raises(ScheduleError, match=said):
        check(Schedule(acts=(act,)), FakeCluster(TRIO), environment)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({}, "l: percent None is none of 1 to 99"),
        ({"percent": 100}, "l: percent 100 is none of 1 to 99"),
        ({"percent": 101, "ports": "ha"}, "l: percent 101 is none of 1 to 100"),
        ({"percent": 9, "ports": "ssh"}, "l: ports 'ssh' is none of all, ha, raft, remoting"),
        ({"percent": 0.5}, "l: percent 0.5 is none of 1 to 99"),
        ({"percent": 5, "ways": "into"}, "l: ways 'into' is none of both, in, out"),
        ({"percent": 5, "from": ["c9"]}, "l: lost from 'c9', which is no node"),
        ({"percent": 5, "from": "slaves"}, "l: lost from 'slaves', which is none of rest, "),
    ],
)
def test_a_loss_that_cannot_be_is_refused(args: dict[str, Any], said: str) -> None:
    environment: Any = Able()
    act = Act(id="l", f="start-packet-loss", who=Who(part="master"), args=args)
    with pytest.raises(ScheduleError, match=said):
        check(Schedule(acts=(act,)), FakeCluster(TRIO), environment)


@pytest.mark.parametrize(
    "args", [{"misread": "commitlog/0"}, {"bit": 3}, {"misread": "f", "bit": -1}]
)
def test_a_misread_bit_that_cannot_be_is_refused(args: dict[str, Any]) -> None:
    environment: Any = Able()
    act = Act(id="d", f="start-disk-fault", who=Who(part="master"), args=args)
    with pytest.raises(ScheduleError, match="d: misread needs the path of a file and a bit of it"):
        check(Schedule(acts=(act,)), FakeCluster(TRIO), environment)


class Simulated(Weak):
    name = "simulated"
    capabilities = frozenset(Capability) - REAL_ONLY


REAL = frozenset(Capability) - SIMULATED_ONLY
PROMPT = REAL - {Capability.DELAY}  # where no proxy can be had


@pytest.mark.parametrize(
    ("names", "can", "instead"),
    [
        (["delay", "kill", "none"], PROMPT, {"delay": "loss"}),
        (["delay", "loss"], PROMPT - {Capability.LOSS},
         {"delay": "partition", "loss": "partition"}),
        (["power-then-delay"], PROMPT - {Capability.POWER_LOSS},
         {"power-then-delay": "kill-then-loss"}),
        (["power", "delay", "loss"], frozenset(Capability), {}),
        (["clock", "disk"], REAL, {}),
        (["power"], frozenset(), {}),
    ],
)  # fmt: skip
def test_what_takes_the_place_of_a_fault(
    names: list[str], can: frozenset[Capability], instead: dict[str, str]
) -> None:
    assert stand_ins(names, can) == instead


@pytest.mark.parametrize("name", [name for name in fault_names() if name != NO_FAULT])
def test_a_row_of_stand_ins_ends(name: str) -> None:
    row = [name]
    while (stand_in := kinds_of(row[-1])[0].stand_in) and len(row) <= len(fault_names()):
        row.append(stand_in)
    assert len(set(row)) == len(row)


@pytest.mark.parametrize(
    ("f", "lacks"), [("start-disk-fault", "disk"), ("bump-clock", "clock-drift")]
)
def test_real_machines_of_this_computer_lack_some(f: str, lacks: str) -> None:
    environment = LocalEnvironment.__new__(LocalEnvironment)
    args = {"drift_ppm": 1} if f == "bump-clock" else {}
    script = Schedule(acts=(Act(id="a", f=f, who=Who(part="master"), args=args),))
    with pytest.raises(MissingCapability, match=f"local cannot do {lacks}.*a .{f}."):
        check(script, FakeCluster(TRIO), environment)


@pytest.mark.parametrize(
    ("args", "wrong"),
    [
        ({"ms": -1}, "ms -1 is none of 0 to 3600000"),
        ({"ms": 5, "jitter_ms": 6}, "jitter_ms 6 is more than ms 5"),
        ({"kb_s": 10_001}, "kb_s 10001 is none of 0 to 10000"),
        ({"ms": 5, "ways": "up"}, "ways 'up' is none of both, in, out"),
        ({"ms": 5, "ports": "10912"}, "ports '10912' is none of all, ha, raft, remoting"),
        ({"ms": 5, "from": ["x"]}, "delayed from 'x', which is no node"),
    ],
)
def test_a_delay_that_can_never_be_is_refused(args: dict[str, Any], wrong: str) -> None:
    act = Act(id="d", f="start-delay", who=Who(part="master"), args=args)
    able: Any = Able()
    with pytest.raises(ScheduleError, match=f"d: {wrong}"):
        check(Schedule(acts=(act,)), FakeCluster(TRIO), able)


def test_a_bandwidth_is_for_real_machines_and_a_delay_is_not() -> None:
    simulated: Any = Simulated()
    narrow, late = (
        Schedule(acts=(Act(id="a", f="start-delay", who=Who(part="master"), args=args),))
        for args in ({"kb_s": 100}, {"ms": 5, "jitter_ms": 5, "ways": "both", "ports": "ha"})
    )
    want = (
        "simulated cannot do bandwidth, which act a (start-delay) needs: kb_s is for real "
        "machines, the simulated network has no capacity"
    )
    with pytest.raises(MissingCapability, match=re.escape(want)):
        check(narrow, FakeCluster(TRIO), simulated)
    check(late, FakeCluster(TRIO), simulated)


class Stepping(Weak):
    """A real environment whose clocks can be set off."""

    name = "real"
    capabilities = REAL


@pytest.mark.parametrize("args", [{"drift_ppm": 50_000}, {"offset_ms": 5, "drift_ppm": -1}])
def test_a_drift_is_for_the_simulator_and_a_step_is_not(args: dict[str, int]) -> None:
    environment: Any = Stepping()
    drift, step = (
        Schedule(acts=(Act(id="a", f="bump-clock", who=Who(part="master"), args=given),))
        for given in (args, {"offset_ms": 5, "drift_ppm": 0})
    )
    said = (
        "real cannot do clock-drift, which act a (bump-clock) needs: drift is for the simulator, "
        "on real machines clocks are off by steps"
    )
    with pytest.raises(MissingCapability) as refused:
        check(drift, FakeCluster(TRIO), environment)
    assert str(refused.value) == said
    check(step, FakeCluster(TRIO), environment)


def test_a_step_needs_a_library_on_real_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "lacking", lambda: {Capability.CLOCK: Lack("none", package="p")})
    environment = LocalEnvironment.__new__(LocalEnvironment)
    act = Act(id="a", f="bump-clock", who=Who(part="master"), args={"offset_ms": 5})
    said = r"local cannot do clock, which act a \(bump-clock\) needs: none \(package p\)"
    with pytest.raises(MissingCapability, match=said):
        check(Schedule(acts=(act,)), FakeCluster(TRIO), environment)
