"""The settings that nodes of the reference are started with."""

import pytest

from maxq.harness.contracts.target import Profile, Settings, Topology, plan
from maxq.harness.targets.reference import PROFILES, effective, properties
from maxq.reference.config import BrokerConfig, ControllerConfig, NamesrvConfig
from maxq.reference.node_file import parse_node

EMBEDDED = Topology(controllers=3, broker_sets=1, replicas=3, embedded=True)


def lines(name: str, settings: Settings) -> dict[str, str]:
    nodes = {n.name: n for n in plan(settings.topology)}
    addresses = {name: f"198.18.0.{at + 2}" for at, name in enumerate(nodes)}
    return properties(nodes[name], settings, addresses, "/d")


def test_a_name_server_with_a_controller_reads_both_from_one_file() -> None:
    keys = {"controller:enableElectUncleanMaster": "true", "namesrv:supportActingMaster": "true"}
    found = lines("n1", Settings(topology=EMBEDDED, keys=keys))
    content = "".join(f"{key}={value}\n" for key, value in found.items()).encode()
    (namesrv, controller), _ = parse_node("namesrv", content, "n1")
    assert isinstance(namesrv, NamesrvConfig)
    assert isinstance(controller, ControllerConfig)
    assert (namesrv.listen_port, namesrv.support_acting_master) == (9876, True)
    assert controller.controller_dleger_self_id == "n1"
    assert controller.enable_elect_unclean_master
    assert controller.peers() == {f"n{i}": f"198.18.0.{i + 2}:9878" for i in range(3)}


def test_brokers_find_controllers_in_name_servers() -> None:
    found = lines("b0-0", Settings(topology=EMBEDDED))
    assert found["namesrvAddr"] == "198.18.0.2:9876;198.18.0.3:9876;198.18.0.4:9876"
    assert found["controllerAddr"] == "198.18.0.2:9878;198.18.0.3:9878;198.18.0.4:9878"


def test_what_is_promised_counts_settings_of_controllers_in_name_servers() -> None:
    keys = {"controller:enableElectUncleanMaster": "true"}
    inside = effective(Settings(topology=EMBEDDED, keys=keys))
    apart = effective(Settings(topology=Topology(controllers=3, replicas=3), keys=keys))
    assert inside["controller:enableElectUncleanMaster"] == "true"
    assert inside == apart


@pytest.mark.parametrize("profile", PROFILES)
def test_a_broker_that_runs_alone_promises_no_copies_and_the_cluster_that_it_becomes_does(
    profile: Profile,
) -> None:
    topology = Topology(controllers=3, broker_sets=1, replicas=3)
    alone = Settings(topology=topology, profile=profile, alone=True)
    content = "".join(f"{k}={v}\n" for k, v in lines("b0-0", alone).items()).encode()
    [broker], _ = parse_node("broker", content, "b0-0")
    assert isinstance(broker, BrokerConfig)
    assert not broker.enable_controller_mode
    assert (broker.broker_id, broker.broker_role) == (0, "ASYNC_MASTER")
    assert "controllerDLegerPeers" in lines("c0", alone)
    assert effective(alone) == effective(Settings(topology=topology, profile=profile))


def test_of_a_pair_the_first_is_master_and_the_others_are_its_slaves() -> None:
    """What a profile of pairs promises is the master's; no node is told of controllers."""
    topology = Topology(controllers=0, broker_sets=1, replicas=2)
    settings = Settings(topology=topology, profile="P-SYNC")
    addresses = {n.name: "10.0.0.1" for n in plan(topology)}
    of = {n.name: properties(n, settings, addresses, "/d") for n in plan(topology)}
    master, slave = of["b0-0"], of["b0-1"]
    assert (master["brokerRole"], master["brokerId"]) == ("SYNC_MASTER", "0")
    assert (slave["brokerRole"], slave["brokerId"]) == ("SLAVE", "1")
    for broker in (master, slave):
        assert broker["inSyncReplicas"] == broker["totalReplicas"] == "2"
        assert broker["enableSlaveActingMaster"] == "true"
        assert not {"enableControllerMode", "controllerAddr", "allAckInSyncStateSet"} & {*broker}
    assert of["n0"]["supportActingMaster"] == "true"


@pytest.mark.parametrize(("profile", "controllers"), [("P-SYNC", 3), ("P-SAFE", 0)])
def test_a_profile_of_another_kind_of_cluster_is_refused(
    profile: Profile, controllers: int
) -> None:
    topology = Topology(controllers=controllers, replicas=2)
    broker = next(n for n in plan(topology) if n.broker_set)
    addresses = {n.name: "10.0.0.1" for n in plan(topology)}
    with pytest.raises(ValueError, match=f"{profile} is a profile of clusters with"):
        properties(broker, Settings(topology=topology, profile=profile), addresses, "/d")
