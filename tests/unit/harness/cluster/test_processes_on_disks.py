"""Every store is on its machine's disk, whatever the layout: else a loss of power takes nothing."""

import pytest

from maxq.harness.cluster.processes import Nodes
from maxq.harness.contracts.environment import CLIENT_ADDRESS, DISK, MachineSpec
from maxq.harness.contracts.layouts import LayoutKind
from maxq.harness.contracts.plugins import layouts
from maxq.harness.contracts.target import Profile, Settings, Topology
from maxq.harness.environments.simulated import SimulatedEnvironment
from maxq.harness.simulation.world import World
from maxq.harness.targets.reference import ReferenceTarget, container_file, properties


@pytest.mark.parametrize("layout", [None, *layouts().values()])
@pytest.mark.parametrize("controllers", [0, 1])
def test_every_store_is_on_the_disk(layout: LayoutKind | None, controllers: int) -> None:
    topology = Topology(
        controllers=controllers, broker_sets=layout.sets if layout else 2, replicas=2,
        layout=layout, guests=layout is not None,
    )  # fmt: skip
    profile: Profile = "P-ALL" if controllers else "P-SYNC"
    settings = Settings(topology=topology, profile=profile)
    world = World(1)
    environment = SimulatedEnvironment(world)
    nodes = Nodes(environment, ReferenceTarget(), settings)

    async def made(_: object) -> None:
        await environment.up([MachineSpec(name=name) for name in nodes.processes])

    world.run(world.add_machine("client", CLIENT_ADDRESS), made)
    addresses = {node.name: node.name for node in nodes.all}
    for node in nodes.all:
        disk = f"{nodes.machine(node.name).data_dir}/{DISK}"
        assert f"{nodes.store(node.name)}/".startswith(f"{disk}/")
        found = properties(node, settings, addresses, nodes.folder(node.name))
        for key in ("storePathRootDir", "storePathCommitLog", "controllerStorePath"):
            assert f"{found.get(key, disk)}/".startswith(f"{disk}/")
    for container in nodes.containers.values():
        data = nodes.machine(container.name).data_dir
        listed = [nodes.config_path(broker) for broker in container.brokers]
        assert f"={':'.join(listed)}\n" in container_file(container, settings, addresses, data)
