"""Every act that a built-in fault or a schedule performs is in the table of facts."""

from random import Random
from typing import cast

import msgspec
import pytest
from struck_cluster import TRIO, FakeCluster

from harness.cluster.deployment import Deployment
from harness.contracts.cluster import FaultPackage
from harness.run.fault_selection import MAKERS, facts_of
from histories.fault_facts import BUILT_IN, Effect, FaultFacts
from nemeses.combine import ordered
from nemeses.fault import Fault, package
from nemeses.process import kill_fault
from nemeses.scripted import NEEDS

FLAP = FaultFacts(strikes="start-flap", effect="cut", heals=("stop-flap",))


class _Settled(FakeCluster):
    """With what one of the makers asks of a run's cluster beside its view."""

    class settings:  # noqa: N801 (it is a field)
        """Addresses are known by name."""

        by_name = True


def made(name: str) -> Fault:
    return MAKERS[name](cast("Deployment", _Settled(TRIO)), Random(1))


@pytest.mark.parametrize("name", MAKERS)
def test_every_act_of_a_fault_is_known(name: str) -> None:
    fault = made(name)
    assert all(BUILT_IN.knows(f) for f in fault.fs)
    assert BUILT_IN.kind(str(fault.end["f"])) != "question"
    assert fault.facts == ()


@pytest.mark.parametrize("f", NEEDS)
def test_every_act_of_a_schedule_is_known(f: str) -> None:
    assert BUILT_IN.knows(f)


def flapping(**more: object) -> Fault:
    facts = msgspec.structs.replace(FLAP, **more)
    return msgspec.structs.replace(made("kill"), name="flap", facts=(facts,))


def test_a_package_hands_on_what_its_fault_says() -> None:
    kill = kill_fault(FakeCluster(TRIO), Random(2), ("master",))
    alone, with_kill = package(flapping()), ordered(kill, flapping(), Random(1))
    assert alone.facts == with_kill.facts == (FLAP,)
    assert facts_of([alone, package(kill), with_kill]) == (FLAP,)


def packages(*facts: FaultFacts) -> list[FaultPackage]:
    return [package(msgspec.structs.replace(flapping(), facts=(one,))) for one in facts]


@pytest.mark.parametrize("effect", ["down", "none"])
def test_two_faults_that_say_different_things_of_one_act_are_refused(effect: Effect) -> None:
    other = msgspec.structs.replace(FLAP, effect=effect)
    with pytest.raises(ValueError, match="facts of fault 'start-flap': it is declared twice"):
        facts_of(packages(FLAP, other))


def test_what_is_built_in_is_not_declared_anew() -> None:
    with pytest.raises(ValueError, match="kill is built in"):
        facts_of(packages(msgspec.structs.replace(FLAP, strikes="kill")))
