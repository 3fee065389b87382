"""Two crossed containers, as a target: each has the master of one set and the slave of the other.

A deployment lays out one broker for each set, which stand for containers: the machine ``b0-0`` is
that of the master of b0, beside which the slave of b1 listens at `SLAVE_PORT`. To kill or start one
of them is to do so to its container.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from maxq.harness.contracts.environment import Machine, Role, machine_address
from maxq.harness.contracts.target import BROKER_PORT, Node, Settings, Target
from maxq.harness.targets.reference import ReferenceTarget, properties
from maxq.harness.targets.rocketmq.libraries import digest, libraries
from maxq.harness.targets.rocketmq.target import (
    FIRST_TIER,
    IN_A_PAIR,
    JAVA,
    JVM,
    SMALL,
    RocketMQTarget,
)

SLAVE_PORT = BROKER_PORT + 10
CONTAINER_PORT = BROKER_PORT - 100
MAIN = "org.apache.rocketmq.container.BrokerContainerStartup"
HEAP = "-Xmx768m"
OF_CONTAINERS = ("namesrvAddr", "haListenPort")  # no key of a broker's file


class Crossed:
    """Runs containers of a release, or of the reference, beside its name servers.

    Args:
        target: whose.
        settings: of two sets.
    """

    patience = RocketMQTarget.patience

    def __init__(self, target: RocketMQTarget | ReferenceTarget, settings: Settings) -> None:
        self._target: Target = target
        self._release = "" if isinstance(target, ReferenceTarget) else target.version.release
        pairs = msgspec.structs.replace(settings.topology, replicas=2)
        self._settings = msgspec.structs.replace(settings, topology=pairs)
        self._jars = Path()
        self.name, self.layer = target.name, target.layer

    def prepare(self) -> dict[str, str]:
        """Have the jars. Raises EnvironmentUnavailable."""
        found = self._target.prepare()
        if self._release:
            self._jars = libraries("container", self._release)
            found |= {"container": f"{self._release} ({digest(self._jars)})"}
        return found

    def folders(self) -> Sequence[Path]:
        """The jars."""
        return (*self._target.folders(), self._jars)

    def ends_with(self, node: Node) -> int:
        """As the target's."""
        return self._target.ends_with(node)

    def follows_address(self, node: Node) -> bool:
        """As the target's."""
        return self._target.follows_address(node)

    def answers_as(self, node: Node) -> int:
        """As the target's."""
        return self._target.answers_as(node)

    def config(self, node: Node, settings: Settings, addresses: dict[str, str], data: str) -> str:
        if node.role is not Role.BROKER:
            return self._target.config(node, settings, addresses, data)
        brokers = properties(node, settings, addresses, data)
        return text({
            "listenPort": CONTAINER_PORT,
            "namesrvAddr": brokers["namesrvAddr"],
            "brokerConfigPaths": f"{data}/master.conf:{data}/slave.conf",
        })  # fmt: skip

    def argv(self, node: Node, settings: Settings, config_path: str) -> Sequence[str]:
        if node.role is not Role.BROKER:
            return self._target.argv(node, settings, config_path)
        if not self._release:
            return [sys.executable, "-m", "maxq.reference", "container", "--config", config_path]
        data = str(Path(config_path).parent)
        return [
            JAVA, *JVM, FIRST_TIER, HEAP, f"-Drocketmq.home.dir={data}", f"-Duser.home={data}",
            f"-Drmq.logback.configurationFile={data}/logback.xml",
            "-cp", f"{self._jars}/*", MAIN, "-c", config_path,
        ]  # fmt: skip

    async def install(self, machine: Machine) -> None:
        """The files of the two brokers, and what its target needs."""
        await self._target.install(machine)
        if not machine.name.startswith("b"):
            return
        mine = machine.name.partition("-")[0]
        other = "b1" if mine == "b0" else "b0"
        data = machine.data_dir
        files = {
            "master": self.broker(mine, 0, BROKER_PORT, data),
            "slave": self.broker(other, 1, SLAVE_PORT, data),
        }
        for name, lines in files.items():
            await machine.put(f"{data}/{name}.conf", text(lines).encode())

    def broker(self, broker_set: str, broker_id: int, port: int, data: str) -> dict[str, object]:
        """The settings of a broker in a container on a machine with that folder of data."""
        node = Node(
            name=f"{broker_set}-{broker_id}", role=Role.BROKER, port=port, broker_set=broker_set,
            replica=broker_id,
        )  # fmt: skip
        names = {f"n{i}": machine_address(i + 1) for i in range(self._settings.topology.namesrvs)}
        lines = properties(node, self._settings, names, data)
        root = f"{data}/store-{broker_set}-{broker_id}"
        own = {
            "listenPort": port,
            "storePathRootDir": root,
            "storePathCommitLog": f"{root}/commitlog",
        }
        small = {**SMALL, **IN_A_PAIR} if self._release else {}
        kept = {k: v for k, v in lines.items() if k not in OF_CONTAINERS}
        return {**small, **kept, **own}


def text(lines: Mapping[str, object]) -> str:
    """Write properties."""
    return "".join(f"{key}={value}\n" for key, value in lines.items())
