"""A cluster whose nodes all start at once is soon ready: nobody waits where an answer is there."""

import pytest
from reference_world import CONTROLLER_CONF, JOINED, NAMESRV_CONF, Cluster

from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.node_headers import CreateTopicRequest

PEERS = {"n0": "198.18.0.32:9878", "n1": "198.18.0.112:9878", "n2": "198.18.0.128:9878"}
BROKERS = ("b1", "b2", "b3")
SECOND_NS = 1_000_000_000


def masters(cluster: Cluster) -> list[str]:
    return [
        name
        for name in BROKERS
        for _, trace, fields in cluster.machines[name].log
        if trace == "broker.role" and fields["role"] == "master"
    ]


def alters(cluster: Cluster) -> list[object]:
    """What came of each change of the SyncStateSet."""
    return [
        fields["code"]
        for name in ("controller", "n1", "n2")
        for _, trace, fields in cluster.machines[name].log
        if trace == "controller.applied" and fields["command"] == "AlterSyncStateSet"
    ]


@pytest.mark.parametrize("seed", range(5))
def test_the_first_send_has_its_replicas_within_two_seconds(seed: int) -> None:
    """An election of at most 1 s with no round lost, ids, a master and a slave that joins at the
    first proposal, which is derived from the SyncStateSet that the election made."""
    with Cluster(f"start/{seed}") as cluster:
        for name, address in PEERS.items():
            if name != "n0":
                host = address.partition(":")[0]
                cluster.machines[name] = cluster.world.add_machine(name, host)
        cluster.start("namesrv", "namesrv", NAMESRV_CONF)
        peers = ";".join(f"{name}-{address}" for name, address in PEERS.items())
        for name in PEERS:
            own = {
                "controllerDLegerPeers": peers,
                "controllerDLegerSelfId": name,
                "jRaftElectionTimeoutMs": "500",
            }
            machine = "controller" if name == "n0" else name
            cluster.start(machine, "controller", {**CONTROLLER_CONF, **own})
        safe = {"allAckInSyncStateSet": "true", "minInSyncReplicas": "2"}
        where = {"controllerAddr": ";".join(PEERS.values())}
        for name in BROKERS:
            cluster.start(name, "broker", {**JOINED, **safe, **where})
        cluster.until(lambda: masters(cluster) != [], seconds=2)
        (master,) = masters(cluster)
        address = f"{cluster.machines[master].address}:10911"
        header = CreateTopicRequest(
            topic="T", default_topic="TBW102", read_queue_nums=1, write_queue_nums=1, perm=6,
            topic_filter_type="SINGLE_TAG",
        )  # fmt: skip
        made = cluster.ask(address, RequestCode.UPDATE_AND_CREATE_TOPIC, header)
        assert made.code == ResponseCode.SUCCESS
        while cluster.send(address, b"first").code != ResponseCode.SUCCESS:
            assert cluster.now_ns < 2 * SECOND_NS
            cluster.sleep(0.01)
        assert cluster.now_ns < 2 * SECOND_NS
        # A send may be acknowledged by whom the first proposal names before that is applied.
        cluster.until(lambda: alters(cluster) != [], seconds=1)
        assert set(alters(cluster)) == {ResponseCode.SUCCESS}
