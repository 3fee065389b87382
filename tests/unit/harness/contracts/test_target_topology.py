"""Which nodes a topology has, and what each of them is."""

from maxq.harness.contracts.environment import Role
from maxq.harness.contracts.target import BROKER_PORT, CONTROLLER_PORT, NAMESRV_PORT, Topology, plan


def test_controllers_in_name_servers_are_no_nodes_of_their_own() -> None:
    """As many name servers as controllers at least; those beyond hold none."""
    nodes = plan(Topology(namesrvs=4, controllers=3, broker_sets=1, replicas=1, embedded=True))
    assert {n.name: n.roles for n in nodes} == {
        **{f"n{i}": (Role.NAMESRV, Role.CONTROLLER) for i in range(3)},
        "n3": (Role.NAMESRV,),
        "b0-0": (Role.BROKER,),
    }
    few = plan(Topology(namesrvs=1, controllers=3, broker_sets=1, replicas=1, embedded=True))
    assert [n.name for n in few] == ["n0", "n1", "n2", "b0-0"]


def test_a_node_answers_at_a_port_for_each_of_its_roles() -> None:
    inside, broker = plan(Topology(controllers=1, broker_sets=1, replicas=1, embedded=True))
    assert inside.port_of(Role.NAMESRV) == NAMESRV_PORT
    assert inside.port_of(Role.CONTROLLER) == CONTROLLER_PORT
    assert broker.port_of(Role.BROKER) == BROKER_PORT
