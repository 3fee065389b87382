"""Two brokers with one identity: a copy of a store that is started beside the original.

Both would be master of one epoch and acknowledge different messages at the same offsets (S1, S5).
"""

import pytest
from reference_world import (
    BROKER,
    CONTROLLER_CONF,
    JOINED,
    NAMESRV_CONF,
    Cluster,
    Process,
    create_topic,
)
from test_address_change import in_sync, move

from maxq.harness.contracts.environment import Cut
from maxq.reference.broker.membership.identity import IdentityError

# A task that a kill meets before its first step holds a coroutine that nobody will ever await.
pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
COPY = "198.18.0.80:10911"  # of machine b3


def pair(cluster: Cluster) -> tuple[Process, Process]:
    """A master and a slave, both in the SyncStateSet."""
    cluster.up("namesrv", "namesrv", NAMESRV_CONF)
    cluster.up("controller", "controller", CONTROLLER_CONF)
    joined = {**JOINED, "allAckInSyncStateSet": "true"}
    first = cluster.up("b1", "broker", joined)
    cluster.until(lambda: cluster.logged("b1", "broker.role") == 1)
    second = cluster.up("b2", "broker", joined)
    cluster.until(lambda: in_sync(cluster)[2] == {1, 2})
    create_topic(cluster)
    return first, second


def copy(cluster: Cluster, of: str) -> Process:
    """Start broker b3 on a copy of another one's store."""
    for path, data in cluster.machines[of].disk.files.items():
        if not path.endswith("/lock"):
            cluster.machines["b3"].disk.install(path, bytes(data))
    return cluster.start("b3", "broker", JOINED)


def roles(cluster: Cluster, name: str) -> list[object]:
    return [fields["role"] for _, trace, fields in cluster.machines[name].log
            if trace == "broker.role"]  # fmt: skip


def led_in(cluster: Cluster, name: str) -> list[int]:
    """The epochs in which a broker was master."""
    return [int(str(fields["epoch"])) for _, trace, fields in cluster.machines[name].log
            if trace == "broker.role" and fields["role"] == "master"]  # fmt: skip


def end_of(process: Process) -> str:
    """Why a process ended by itself."""
    group = process.task.exception()
    assert isinstance(group, BaseExceptionGroup)
    [why] = group.exceptions
    assert isinstance(why, IdentityError)
    process.loop.kill()
    return str(why)


@pytest.mark.parametrize("of", ["b1", "b2"])
def test_a_copy_of_a_living_brokers_store_ends_by_name(cluster: Cluster, of: str) -> None:
    """It takes no role, the owner keeps its own, and what is sent to the owner is acknowledged."""
    owners = pair(cluster)
    before = in_sync(cluster)
    newcomer = copy(cluster, of)
    cluster.until(newcomer.task.done, seconds=20)
    address = cluster.machines[of].address
    assert f"{address}:10911, which is alive" in end_of(newcomer)
    assert roles(cluster, "b3") == []
    assert in_sync(cluster) == before
    assert cluster.send(BROKER, b"after").code == 0
    assert all(owner.healthy for owner in owners)


def test_a_copy_takes_the_place_of_a_dead_owner_which_then_ends(cluster: Cluster) -> None:
    """The owner lost its power; a copy of its store is started, and then the owner itself."""
    pair(cluster)
    cluster.machines["b1"].lose_power()
    newcomer = copy(cluster, "b1")
    cluster.until(lambda: bool(roles(cluster, "b3")), seconds=40)
    assert newcomer.healthy
    owner = cluster.start("b1", "broker", JOINED)
    cluster.until(owner.task.done, seconds=20)
    assert f"{COPY}, which is alive" in end_of(owner)


def test_an_owner_that_was_cut_off_is_fenced_when_a_copy_has_its_id(cluster: Cluster) -> None:
    """The copy is started while controllers do not hear the owner, which is its set's master."""
    owner, _ = pair(cluster)
    home, controller = (cluster.machines[name] for name in ("b1", "controller"))
    for one, other in ((home, controller), (controller, home)):
        one.stack.cut([Cut("them", other.address)])
    cluster.sleep(12)
    newcomer = copy(cluster, "b1")
    cluster.until(lambda: bool(roles(cluster, "b3")), seconds=40)
    for machine in (home, controller):
        machine.stack.cut([])
    cluster.until(owner.task.done, seconds=60)
    assert f"{COPY}, which is alive" in end_of(owner)
    assert newcomer.healthy


def test_a_broker_that_was_killed_starts_at_another_address_at_once(cluster: Cluster) -> None:
    first, _ = pair(cluster)
    first.loop.kill()
    move(cluster, "b1", "198.18.0.200")
    before = cluster.now_ns
    cluster.up("b1", "broker", {**JOINED, "allAckInSyncStateSet": "true"})
    cluster.until(lambda: in_sync(cluster)[2] == {1, 2}, seconds=15)
    assert cluster.logged("b1", "broker.id.in-use") == 0
    assert cluster.now_ns - before < 15 * 10**9


def test_a_broker_that_lost_power_waits_for_its_own_time_out_at_another_address(
    cluster: Cluster,
) -> None:
    """No connection of the lost process has ended: its controller takes it for alive for 10 s."""
    pair(cluster)
    cluster.machines["b2"].lose_power()
    move(cluster, "b2", "198.18.0.200")
    second = cluster.start("b2", "broker", {**JOINED, "allAckInSyncStateSet": "true"})
    cluster.until(lambda: cluster.logged("b2", "broker.id.in-use") > 0, seconds=10)
    cluster.until(lambda: in_sync(cluster)[2] == {1, 2}, seconds=30)
    assert second.healthy


def test_an_owner_that_is_back_does_not_lead_in_the_epoch_of_its_copy(cluster: Cluster) -> None:
    """Broker b1 dies, a copy of its store leads under its id and dies, and b1 comes back: its id is
    master of an epoch of which its log knows nothing (S5)."""
    cluster.up("namesrv", "namesrv", NAMESRV_CONF)
    cluster.up("controller", "controller", CONTROLLER_CONF)
    cluster.up("b1", "broker", JOINED)
    cluster.until(lambda: cluster.logged("b1", "broker.role") == 1)
    cluster.machines["b1"].lose_power()
    copy(cluster, "b1")
    cluster.until(lambda: led_in(cluster, "b3") != [], seconds=40)
    cluster.machines["b3"].lose_power()
    cluster.start("b1", "broker", JOINED)
    cluster.until(lambda: len(led_in(cluster, "b1")) > 1, seconds=40)
    assert led_in(cluster, "b1")[-1] > led_in(cluster, "b3")[-1]


def test_an_owner_that_was_cut_off_does_not_lead_in_the_epoch_of_its_copy(cluster: Cluster) -> None:
    """It runs all the while, and its copy has led and died when it is heard again."""
    cluster.up("namesrv", "namesrv", NAMESRV_CONF)
    cluster.up("controller", "controller", CONTROLLER_CONF)
    owner = cluster.up("b1", "broker", JOINED)
    cluster.until(lambda: cluster.logged("b1", "broker.role") == 1)
    home, controller = (cluster.machines[name] for name in ("b1", "controller"))
    for one, other in ((home, controller), (controller, home)):
        one.stack.cut([Cut("them", other.address)])
    cluster.sleep(12)
    copy(cluster, "b1")
    cluster.until(lambda: led_in(cluster, "b3") != [], seconds=40)
    cluster.machines["b3"].lose_power()
    cluster.sleep(12)
    for machine in (home, controller):
        machine.stack.cut([])
    cluster.until(lambda: len(led_in(cluster, "b1")) > 1, seconds=60)
    assert owner.healthy
    assert led_in(cluster, "b1")[-1] > led_in(cluster, "b3")[-1]
