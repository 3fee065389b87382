"""Two machines with a container each serve each other as equals (RIP-31), and one of them dies.

Set a has its master on b1 and its slave on b2, set o the other way round. Claims: B8, S6, E1.
"""

from collections.abc import Iterator

import pytest
from reference_world import (
    BROKER_CONF,
    NAMESRV,
    NAMESRV_CONF,
    Cluster,
    Process,
    bodies,
)

from maxq.reference.member_group import members_of
from maxq.reference.rpc import Pool
from maxq.reference.wire.codes import RequestCode
from maxq.reference.wire.route import TopicRouteData

# A task that a kill meets before its first step holds a coroutine that nobody will ever await.
pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
ONE, OTHER = "198.18.0.48", "198.18.0.64"
PORTS = {"a": 10911, "o": 10921}
HOMES = {"a": (ONE, OTHER), "o": (OTHER, ONE)}  # of master and slave
COMMON = {
    **BROKER_CONF, "enableSlaveActingMaster": "true", "totalReplicas": "2", "inSyncReplicas": "2",
    "enableAutoInSyncReplicas": "true", "slaveTimeout": "1500", "slaveReadEnable": "true",
    "brokerNotActiveTimeoutMillis": "3000", "registerNameServerPeriod": "10000",
    "messageDelayLevel": "5s 60s", "compatibleWithOldNameSrv": "false",
}  # fmt: skip


class Crossed(Cluster):
    """Both containers, whose slaves are in sync."""

    def __init__(self) -> None:
        super().__init__()
        self.up("namesrv", "namesrv", {**NAMESRV_CONF, "supportActingMaster": "true"})
        self.containers = {name: self.container(name) for name in ("b1", "b2")}
        self.until(lambda: self.whole("a") and self.whole("o"))
        for name in PORTS:
            header = {"topic": "T", "defaultTopic": "TBW102", "readQueueNums": "2", "perm": "6",
                      "writeQueueNums": "2", "topicFilterType": "SINGLE_TAG"}  # fmt: skip
            at = self.master(name)
            assert self.ask(at, RequestCode.UPDATE_AND_CREATE_TOPIC, header).code == 0
        self.sleep(13)  # slaves have the tables of their masters, and again

    def container(self, machine: str) -> Process:
        ip = self.machines[machine].address
        for name, port in PORTS.items():
            leads = HOMES[name][0] == ip
            role = {"brokerRole": "SYNC_MASTER" if leads else "SLAVE",
                    "brokerId": "0" if leads else "1"}  # fmt: skip
            own = {"brokerName": name, "listenPort": str(port), "storePathRootDir": f"/data/{name}"}
            self.write(machine, f"/etc/{name}.conf", {**COMMON, **role, **own})
        paths = {"brokerConfigPaths": "/etc/a.conf:/etc/o.conf", "namesrvAddr": NAMESRV}
        return self.up(machine, "container", paths)

    def master(self, name: str) -> str:
        return f"{HOMES[name][0]}:{PORTS[name]}"

    def slave(self, name: str) -> str:
        return f"{HOMES[name][1]}:{PORTS[name]}"

    def listed(self, name: str) -> dict[int, str]:
        async def main(pool: Pool) -> dict[int, str]:
            return await members_of(pool, NAMESRV, "c", name)

        return self.client(main)

    def whole(self, name: str) -> bool:
        """Whether a set is listed as it is configured, and its slave is in sync."""
        if self.listed(name) != {0: self.master(name), 1: self.slave(name)}:
            return False
        process = self.containers["b1" if HOMES[name][0] == ONE else "b2"]
        brokers = {i.file.config.broker_name: i.broker for i in process.node.brokers}
        membership = brokers[name].membership
        return membership is not None and membership.in_sync_count == 2

    def end(self, address: str) -> int:
        return int(self.info(address)["commitLogMaxOffset"])

    def shown(self, name: str) -> tuple[dict[int, str], int]:
        """Whom clients see of a set, and with which permission."""
        answer = self.ask(NAMESRV, RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"})
        route = TopicRouteData.from_json(answer.body)
        addresses = {b.broker_name: dict(b.broker_addrs) for b in route.broker_datas}
        perms = {q.broker_name: q.perm for q in route.queue_datas}
        return addresses.get(name, {}), perms.get(name, 0)


@pytest.fixture
def crossed() -> Iterator[Crossed]:
    made = Crossed()
    with made:
        yield made


def test_one_dies_and_the_other_serves_both_sets(crossed: Crossed) -> None:
    """Set o goes on; of set a the slave gives what there is, and delivers what is due beside it."""
    assert crossed.send(crossed.master("a"), b"a1").code == 0
    assert crossed.send(crossed.master("o"), b"o1").code == 0
    delayed = "DELAY\x011\x02UNIQ_KEY\x01K\x02"
    assert crossed.send(crossed.master("a"), b"late", queue_id=1, properties=delayed).code == 0
    crossed.containers["b1"].loop.kill()
    crossed.until(lambda: crossed.shown("a") == ({0: crossed.slave("a")}, 4), seconds=10)
    assert bodies(crossed.pull(crossed.slave("a"))) == [b"a1"]
    crossed.until(lambda: crossed.send(crossed.master("o"), b"o2").code == 0, seconds=10)
    beside = crossed.master("o")
    crossed.until(lambda: bodies(crossed.pull(beside, queue_id=1)) == [b"late"], seconds=20)

    crossed.containers["b1"] = crossed.container("b1")
    crossed.until(lambda: crossed.whole("a") and crossed.whole("o"))
    crossed.until(lambda: crossed.shown("a")[1] == 6)
    assert crossed.send(crossed.master("a"), b"a2").code == 0
    assert bodies(crossed.pull(crossed.master("a")))[:2] == [b"a1", b"a2"]
    assert {b"o1", b"o2"} <= {*bodies(crossed.pull(beside))}
    for name in PORTS:
        ends = (crossed.end(crossed.master(name)), crossed.end(crossed.slave(name)))
        assert ends[0] == ends[1]
