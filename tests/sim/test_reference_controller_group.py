"""Three controllers: one answers, the others say who; ids, masters and epochs outlive its death."""

from reference_world import JOINED, Cluster, Controllers

from maxq.reference.wire.headers import from_ext
from maxq.reference.wire.node_headers import (
    MetadataResponse,
    NextBrokerIdResponse,
    ReplicaInfoResponse,
)

SET = {"clusterName": "c", "brokerName": "b"}


def test_only_the_leader_answers_and_everybody_names_it(cluster: Cluster) -> None:
    """2007 where it does not lead; 1005 works on any node (docs/spec/remoting.md 8.2 and 8.3)."""
    group = Controllers(cluster)
    leader = group.leader()
    cluster.sleep(1)
    for name, address in group.addresses.items():
        meta = from_ext(MetadataResponse, cluster.ask(address, 1005, {}).ext)
        assert meta.controller_leader_address == group.addresses[leader]
        assert (meta.controller_leader_id, meta.is_leader) == (leader, name == leader)
        assert meta.peers == group.peers.replace("-", ":") + ";"
        for code in (1001, 1002, 1003, 1004, 1006, 1011, 1012, 1013):
            answer = cluster.ask(address, code, SET)
            assert (answer.code == 2007) == (name != leader), (name, code)


def test_ids_masters_and_epochs_outlive_the_leader(cluster: Cluster) -> None:
    """S1, S2, S3: a broker keeps its id and its mastership while leaders come and go."""
    group = Controllers(cluster)
    everybody = ";".join(group.addresses.values())
    broker = cluster.up("b1", "broker", {**JOINED, "controllerAddr": everybody})
    cluster.until(lambda: cluster.logged("b1", "broker.role") == 1)
    epochs = []
    for _ in range(4):
        leader = group.leader()
        info = cluster.ask(group.addresses[leader], 1004, SET)
        known = from_ext(ReplicaInfoResponse, info.ext)
        assert (known.master_broker_id, known.master_address) == (1, "198.18.0.48:10911")
        epochs.append(known.master_epoch)
        following = cluster.ask(group.addresses[leader], 1012, SET)
        assert from_ext(NextBrokerIdResponse, following.ext).next_broker_id == 2
        group.kill(leader)
        group.leader()
        group.start(leader)
    assert broker.healthy
    assert epochs == [1, 1, 1, 1], "nobody died, so nobody was elected"


def test_a_dead_master_is_replaced_only_from_the_sync_state_set(cluster: Cluster) -> None:
    """S7: of two brokers only the master is in sync, so nobody takes its place until it returns."""
    group = Controllers(cluster)
    settings = {**JOINED, "controllerAddr": ";".join(group.addresses.values()),
                "controllerHeartBeatTimeoutMills": "2000"}  # fmt: skip
    first = cluster.up("b1", "broker", settings)
    cluster.until(lambda: cluster.logged("b1", "broker.role") == 1)
    cluster.up("b2", "broker", settings)
    cluster.until(lambda: cluster.logged("b2", "broker.role") == 1)
    first.loop.kill()
    cluster.sleep(10)
    info = cluster.ask(group.addresses[group.leader()], 1004, SET)
    assert from_ext(ReplicaInfoResponse, info.ext).master_broker_id == 1
    cluster.up("b1", "broker", settings)
    cluster.until(lambda: cluster.logged("b1", "broker.role") == 2)


def test_without_a_majority_nobody_gets_an_id(cluster: Cluster) -> None:
    group = Controllers(cluster)
    leader = group.leader()
    for name in [n for n in group.addresses if n != leader]:
        group.kill(name)
    broker = cluster.up("b1", "broker", {**JOINED, "controllerAddr": group.addresses[leader]})
    cluster.sleep(20)
    assert broker.healthy
    assert cluster.disk("b1", "/data/brokerIdentity") is None
    assert cluster.logged("b1", "broker.role") == 0
    for name in [n for n in group.addresses if n != leader]:
        group.start(name)
    cluster.until(lambda: cluster.disk("b1", "/data/brokerIdentity") is not None)
