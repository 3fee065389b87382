"""A log that is older than its epoch list, as the upgrade to 5.1.1 leaves it.

It leaves a master whose one entry begins at its log's end. A second cluster starts on the stores
of the first: its controllers know nothing, which is what clearing their data comes to.
"""

from collections.abc import Callable, Iterator

import pytest
from reference_world import (
    BROKER,
    CONTROLLER_CONF,
    JOINED,
    NAMESRV_CONF,
    Cluster,
    bodies,
    broker_up,
    create_topic,
)
from test_address_change import in_sync

from maxq.harness.contracts.environment import Role
from maxq.harness.experiments.crash_points.arena import Arena
from maxq.harness.experiments.crash_points.flows import all_brokers, basis, tail_of_its_own
from maxq.reference.broker.store.store import Store
from maxq.reference.records import MasterEpoch, PhyOffset
from maxq.reference.wire.files import encode_epochs
from maxq.reference.wire.ha import EpochStart

# A task that a kill meets before its first step holds a coroutine that nobody will ever await.
pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
LOST_WITH_THE_UPGRADE = ("epochFileCheckpoint", "brokerIdentity", "lock")  # 5.1.0 has no identity
MASTER, SLAVES = "b0-0", ("b0-1", "b0-2")
BROKERS, LOG_FILE = ("b1", "b2", "b3"), "/data/commitlog/00000000000000000000"
Make = Callable[[], Arena]


@pytest.fixture
def arenas() -> Iterator[Make]:
    made: list[Arena] = []

    def make() -> Arena:
        made.append(Arena(None, controllers=1, brokers=3))
        return made[-1]

    yield make
    for arena in made:
        arena.world.close()


def log_of(arena: Arena, name: str) -> bytes:
    """All bytes of a broker's log."""
    store: Store = arena.brokers()[name]._store
    at, parts = store.start, []
    while at < store.end:
        parts.append(store.read_range(at, store.end - at))
        at += len(parts[-1])  # type: ignore[assignment]
    return b"".join(parts)


def stopped(arena: Arena, *running: str) -> dict[str, dict[str, bytes]]:
    """Stop those who run, and return all stores without what the upgrade removes."""
    arena.kill(*running)
    return {
        name: {
            path: bytes(data)
            for path, data in arena.world.machines[name].disk.files.items()
            if not path.rpartition("/")[2].startswith(LOST_WITH_THE_UPGRADE)
        }
        for name in (MASTER, *SLAVES)
    }


def installed(
    make: Make, stores: dict[str, dict[str, bytes]], acked: list[bytes], *, first: str = MASTER
) -> Arena:
    """A new cluster on these stores, of which the old master runs."""
    arena = make()
    for name, files in stores.items():
        for path, data in files.items():
            arena.world.machines[name].disk.install(path, data)
    arena.acked += acked
    basis(arena)
    arena.start(first)
    arena.until(lambda: arena.master() == first, "the old master is elected")
    return arena


def upgraded_from(make: Make) -> tuple[dict[str, dict[str, bytes]], list[bytes], dict[str, bytes]]:
    """The stores of three brokers in sync, what was acknowledged, and their logs."""
    old = make()
    assert all_brokers(old) == MASTER
    old.become_whole()
    logs = {name: log_of(old, name) for name in (MASTER, *SLAVES)}
    assert len(set(logs.values())) == 1
    return stopped(old, *SLAVES, MASTER), list(old.acked), logs


def whole(arena: Arena, before: bytes) -> None:
    """All are in sync, hold what they held, and the same of what came since."""
    arena.become_whole()
    logs = {name: log_of(arena, name) for name in arena.of(Role.BROKER)}
    assert len(set(logs.values())) == 1
    assert logs[MASTER].startswith(before)
    assert len(logs[MASTER]) > len(before)
    assert arena.missing() == []
    assert arena.oracle.anomalies == []


def test_the_documented_upgrade_keeps_every_copy(arenas: Make) -> None:
    """Sends are acknowledged under P-SAFE, so by more than the master."""
    stores, acked, logs = upgraded_from(arenas)
    arena = installed(arenas, stores, acked)
    arena.start(*SLAVES)
    whole(arena, logs[MASTER])
    for slave in SLAVES:
        assert arena.logged(slave, "ha.slave.compares") == 1
        assert arena.logged(slave, "ha.slave.resync") == arena.logged(slave, "ha.slave.cut") == 0


def test_an_empty_slave_gets_what_has_no_label(arenas: Make) -> None:
    stores, acked, logs = upgraded_from(arenas)
    arena = installed(arenas, stores | {"b0-2": {}}, acked)
    arena.start(*SLAVES)
    whole(arena, logs[MASTER])
    assert arena.logged("b0-2", "ha.slave.compares") == 0


def test_a_slave_that_was_behind_goes_on_from_its_end(arenas: Make) -> None:
    """Its log ends before the master's first entry, and maybe within a record."""
    stores, acked, logs = upgraded_from(arenas)
    path = "/b0-2/store/commitlog/00000000000000000000"
    files = {p: d for p, d in stores["b0-2"].items() if "/commitlog/" not in p}
    files = {p: d for p, d in files.items() if not p.endswith(("logWatermark", "logTail"))}
    files[path] = stores["b0-2"][path][: len(logs[MASTER]) // 2]
    arena = installed(arenas, stores | {"b0-2": files}, acked)
    arena.start(*SLAVES)
    whole(arena, logs[MASTER])
    assert arena.logged("b0-2", "ha.slave.compares") == 1
    assert arena.logged("b0-2", "ha.slave.resync") == 0


def test_a_slave_with_records_of_its_own_is_cut_at_the_first(arenas: Make) -> None:
    """It was master of records that nobody else had; another one leads after the upgrade."""
    old = arenas()
    assert tail_of_its_own(old) == MASTER
    old.until(lambda: old.in_sync(2) and old.fresh(), "a message of the next epoch")
    leader = old.master() or ""
    third = next(name for name in SLAVES if name != leader)
    old.until(lambda: level(old, leader, third), "both have the same")
    kept = log_of(old, leader)
    stores = stopped(old, leader, third)
    own = stores[MASTER]["/b0-0/store/commitlog/00000000000000000000"]
    assert not own.startswith(kept[: len(own.rstrip(b"\0"))])
    arena = installed(arenas, stores, list(old.acked), first=leader)
    arena.start(MASTER, third)
    arena.become_whole()
    assert {log_of(arena, n)[: len(kept)] for n in stores} == {kept}
    assert (arena.logged(MASTER, "ha.slave.cut"), arena.logged(MASTER, "ha.slave.resync")) == (1, 0)
    assert arena.logged(third, "ha.slave.cut") == 0
    assert (arena.missing(), arena.oracle.anomalies) == ([], [])


def level(arena: Arena, *names: str) -> bool:
    """Whether these hold the same, all of it confirmed."""
    stores = [arena.brokers()[name]._store for name in names]
    return len({store.end for store in stores} | {stores[0].confirm_offset}) == 1


def test_elections_after_the_upgrade(arenas: Make) -> None:
    """The unlabelled master is demoted, and a slave that never followed it joins the next one."""
    stores, acked, logs = upgraded_from(arenas)
    arena = installed(arenas, stores, acked)
    arena.start("b0-1")
    arena.until(lambda: arena.in_sync(2), "the first slave has joined")
    arena.kill(MASTER)
    arena.until(lambda: arena.master() == "b0-1", "it is elected")
    arena.start("b0-2")
    arena.until(lambda: arena.in_sync(2), "the second slave has joined")
    assert arena.logged("b0-2", "ha.slave.compares") == 1
    arena.start(MASTER)
    whole(arena, logs[MASTER])
    assert arena.logged(MASTER, "ha.slave.compares") == 0  # it shares its own epoch
    arena.go_on()
    arena.kill("b0-1")
    arena.until(lambda: arena.master() not in (None, "b0-1"), "another election")
    arena.start("b0-1")
    whole(arena, logs[MASTER])


@pytest.mark.parametrize("victim", [MASTER, "b0-1"])
@pytest.mark.parametrize("begins", ["behind", "in", "at-end", "nowhere"])
def test_an_epoch_file_that_does_not_fit_its_log(arenas: Make, victim: str, begins: str) -> None:
    """It labels less than there is, never more: the rest is compared, and nothing is lost."""
    arena = arenas()
    assert all_brokers(arena) == MASTER
    end = arena.brokers()[victim]._store.end
    arena.kill(victim)
    disk = arena.world.machines[victim].disk
    start = {"behind": end + 5000, "in": end // 2 + 1, "at-end": end, "nowhere": None}[begins]
    for name in ("epochFileCheckpoint", "epochFileCheckpoint.bak"):
        path = f"/{victim}/store/{name}"
        assert path in disk.files
        disk.remove(path)
        if start is not None:
            entry = EpochStart(epoch=MasterEpoch(1), start=PhyOffset(start))
            disk.install(path, encode_epochs([entry]))
    arena.start(victim)
    arena.become_whole()
    assert {len(log_of(arena, n)) for n in arena.of(Role.BROKER)} == {len(log_of(arena, MASTER))}
    assert arena.missing() == []
    assert arena.logged(victim, "ha.slave.resync") == 0


@pytest.mark.parametrize("copied", [False, True])
def test_a_broker_that_ran_alone_gets_controllers(cluster: Cluster, copied: bool) -> None:
    """And two slaves, which are empty, or have a copy of its log: P-SAFE holds from then on."""
    alone = broker_up(cluster)
    create_topic(cluster)
    bodies_sent = [f"alone {n}".encode() for n in range(30)]
    assert {cluster.send(BROKER, body).code for body in bodies_sent} == {0}
    alone.loop.kill()
    disk = cluster.machines["b1"].disk
    before = bytes(disk.files[LOG_FILE]).rstrip(b"\0")
    for name in ("b2", "b3") if copied else ():
        cluster.machines[name].disk.install(LOG_FILE, bytes(disk.files[LOG_FILE]))
    cluster.up("namesrv", "namesrv", NAMESRV_CONF)
    cluster.up("controller", "controller", CONTROLLER_CONF)
    safe = {**JOINED, "allAckInSyncStateSet": "true", "minInSyncReplicas": "2"}
    cluster.up("b1", "broker", safe)
    cluster.until(lambda: cluster.logged("b1", "broker.role") == 1)
    for name in ("b2", "b3"):
        cluster.up(name, "broker", safe)
    cluster.until(lambda: in_sync(cluster)[2] == {1, 2, 3})
    assert cluster.send(BROKER, b"together").code == 0
    cluster.until(lambda: len({logged_bytes(cluster, name) for name in BROKERS}) == 1)
    assert logged_bytes(cluster, "b1").startswith(before)
    assert bodies(cluster.pull(BROKER, max_msg_nums=64)) == [*bodies_sent, b"together"]
    compared = [cluster.logged(name, "ha.slave.compares") for name in ("b2", "b3")]
    assert compared == ([1, 1] if copied else [0, 0])
    assert cluster.oracle.anomalies == []


def logged_bytes(cluster: Cluster, name: str) -> bytes:
    return bytes(cluster.machines[name].disk.files.get(LOG_FILE, b"")).rstrip(b"\0")
