"""Partitions that a file of nobody's fills, and what brokers say of it.

The proof is the brokers' own answer (28), of those of the machine that run. Ours say whether they
take messages; they look now and then, so that is waited for. RocketMQ's say how full the partition
is, and refuse sends from their next look on (`cleanResourceInterval`). Units: seconds.
"""

from collections.abc import Mapping
from typing import Any

from maxq.harness.client.probes import probing, runtime_info, until
from maxq.harness.cluster.processes import Nodes
from maxq.harness.contracts.cluster import Proof
from maxq.harness.contracts.environment import Environment
from maxq.reference.records import RemoteProtocolError

PERCENT = 95  # beyond the level at which brokers refuse sends
LOOK_TIMEOUT_S = 25.0  # brokers look each 10 s
OURS, RATIO = "maxq.diskFull", "commitLogDiskRatio"  # of a broker's answer
FULL = 0.9  # `diskSpaceWarningLevelRatio`, as RocketMQ ships it


def full_by(info: Mapping[str, str]) -> str:
    """What a broker says of its partition: ``true`` where it is too full for sends."""
    if OURS in info:
        return info[OURS]
    ratio = info.get(RATIO, "")
    return str(float(ratio) > FULL).lower() if ratio else "unsaid"


class Filling:
    """What is filled.

    Args:
        environment: how brokers are asked.
        nodes: of the run.
    """

    def __init__(self, environment: Environment, nodes: Nodes) -> None:
        self._environment = environment
        self._nodes = nodes
        self._filled: set[str] = set()  # machines

    def filled(self, node: str) -> bool:
        return self._nodes.process(node) in self._filled

    async def fill_disk(self, node: str) -> Proof:
        await self._nodes.machine(node).fill(PERCENT)
        self._filled.add(self._nodes.process(node))
        return await self._proven(node, full=True)

    async def free_disk(self, node: str) -> Proof:
        await self._nodes.machine(node).fill(0)
        self._filled.discard(self._nodes.process(node))
        return await self._proven(node, full=False)

    async def _proven(self, node: str, *, full: bool) -> Proof:
        """Whether every broker of the machine that runs says so."""
        said: dict[str, Any] = {}

        async def agreed() -> bool:
            asked = [n for n in self._nodes.on(self._nodes.process(node)) if self._nodes.answers(n)]
            said.clear()
            async with probing(self._environment.observer_dial) as pool:
                for name in asked:
                    try:
                        info = await runtime_info(pool, self._nodes.address(name))
                        said[name] = full_by(info)
                    except (OSError, RemoteProtocolError) as error:
                        said[name] = type(error).__name__
            return {*said.values()} <= {str(full).lower()}

        holds = await until(agreed, LOOK_TIMEOUT_S)
        return Proof(holds, {"full": dict(said)})
