"""The settings that nodes of the reference are started with."""

from maxq.harness.contracts.target import Settings, Topology, plan
from maxq.harness.targets.reference import effective, properties
from maxq.reference.config import ControllerConfig, NamesrvConfig
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
