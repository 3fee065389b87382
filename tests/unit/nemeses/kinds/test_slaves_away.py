"""A master that is struck while its slaves are away."""

import pytest

from maxq.harness.contracts.environment import Capability
from maxq.harness.contracts.target import Topology, plan
from maxq.harness.schedule.options import POWER_FAULTS
from maxq.nemeses.catalogue import fault_names, kinds_of, needs_of
from maxq.nemeses.kind import Drawing
from maxq.nemeses.kinds.slaves_away import ALONE_S


@pytest.mark.parametrize("name", ["slaves-away-kill", "slaves-away-power"])
@pytest.mark.parametrize("topology", [Topology(replicas=3), Topology(controllers=0, replicas=2)])
def test_slaves_leave_before_their_master_and_are_back_before_it(
    name: str, topology: Topology
) -> None:
    (kind,) = kinds_of(name)
    assert kind.rounds is not None
    made = next(iter(kind.rounds(Drawing.of("1", plan(topology), by_name=False))))
    stopped, struck, slaves_back, master_back = made[:4]
    assert (stopped.f, stopped.who.part) == ("stop", "slave")
    assert struck.who.part == "master"
    assert ALONE_S[0] <= struck.wait <= ALONE_S[1]
    assert (slaves_back.of, master_back.of) == (0, 1)


def test_the_faults_that_take_power_are_known_by_name() -> None:
    """Options cannot ask a kind what it needs; where one is missing brokers would not sync."""
    alone = [name for name in fault_names() if name != "none"]
    assert {n for n in alone if Capability.POWER_LOSS in needs_of([n])} == POWER_FAULTS
