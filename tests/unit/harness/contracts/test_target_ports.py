"""Where others connect to nodes."""

from typing import Any

from maxq.harness.contracts.environment import Role
from maxq.harness.contracts.target import Node, Settings, Topology, listening

BROKER = Node(name="b0-0", role=Role.BROKER, port=10911, broker_set="b0")


def ports(node: Node, **keys: str) -> dict[Any, set[int]]:
    settings = Settings(topology=Topology(), keys={k.replace("_", ":"): v for k, v in keys.items()})
    return {kind: set(found) for kind, found in listening(node, settings).items()}


def test_brokers_replicate_at_the_next_port_or_where_a_setting_says() -> None:
    assert ports(BROKER) == {"remoting": {10911, 10909}, "ha": {10912}}
    assert ports(BROKER, broker_haListenPort="12000")["ha"] == {12_000}


def test_controllers_agree_at_their_own_port_or_the_next() -> None:
    alone = Node(name="c0", role=Role.CONTROLLER, port=9878)
    inside = Node(name="n0", role=Role.NAMESRV, port=9876, embeds=True)
    raft = {9878, 9879}
    assert ports(alone) == {"remoting": {9878}, "raft": raft}
    assert ports(inside) == {"remoting": {9876, 9878}, "raft": raft}
    assert ports(Node(name="n0", role=Role.NAMESRV, port=9876)) == {"remoting": {9876}}
