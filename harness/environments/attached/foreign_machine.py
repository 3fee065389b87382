"""A machine of somebody else, with one process on it that faults may strike.

Its network, as its agent changes it, and all that is never done to it. How its process is reached
depends on where it is: `maxq.harness.environments.attached.foreign_container`,
`maxq.harness.environments.attached.host_machine`. Nothing of its disk is reached. Units: seconds,
bytes.
"""

from collections.abc import Mapping, Sequence
from typing import NoReturn, TypeVar

import msgspec

from maxq.harness.contracts.environment import (
    CLIENT,
    Capability,
    ClockShown,
    Cut,
    Delay,
    Dropped,
    Echo,
    Loss,
    Misread,
    MissingCapability,
    Port,
    Written,
)
from maxq.harness.environments.machines.machine import LinkedNetwork
from maxq.reference.rpc import Dial

OF_PROCESSES = frozenset((Capability.KILL, Capability.RESTART, Capability.PAUSE))
OF_NETWORKS = frozenset((Capability.CUT, Capability.LOSS))
Rule = TypeVar("Rule", Cut, Loss)


class ForeignMachine:
    """A machine whose process somebody else started.

    Args:
        name: of its node.
        address: of its node.
        folder: of the run, where its log goes.
    """

    whose = "of somebody else"

    def __init__(self, name: str, address: str, folder: str) -> None:
        self._name = name
        self._address = address
        self._folder = folder
        self.network: LinkedNetwork | None = None  # None: nothing is done to it
        self._cuts: Sequence[Cut] = ()
        self._losses: Sequence[Loss] = ()

    @property
    def name(self) -> str:
        return self._name

    @property
    def address(self) -> str:
        return self._address

    @property
    def block(self) -> str:
        return f"{self._address}/32"

    @property
    def data_dir(self) -> str:
        return self._folder

    async def command(self, pid: int) -> Sequence[str]:
        return ()  # it is what its maker said

    # Its network.

    def _own_network(self) -> LinkedNetwork:
        if self.network is None:
            raise MissingCapability(f"nothing is done to the network of {self._name} in this run")
        return self.network

    async def cut(self, cuts: Sequence[Cut]) -> None:
        self._cuts = cuts
        await self._own_network().cut(cuts)

    async def cut_packets(self) -> dict[str, int]:
        return await self._own_network().cut_packets() if self.network else {}

    async def connections(self, block: str) -> frozenset[tuple[str, str]]:
        return await self._own_network().connections(block)

    async def reset_connections(self, block: str, ports: Sequence[int] = ()) -> None:
        await self._own_network().reset_connections(block, ports)

    async def lose(self, losses: Sequence[Loss]) -> None:
        self._losses = losses
        await self._own_network().lose(losses)

    async def lost_packets(self) -> dict[str, Dropped]:
        return await self._own_network().lost_packets() if self.network else {}

    async def probe(self, host: str, port: int, *, timeout_s: float) -> Port:
        return await self._own_network().probe(host, port, timeout_s=timeout_s)

    async def again(self, blocks: Mapping[str, str]) -> None:
        """Put its rules again, with the blocks of addresses that machines have now."""
        if self._cuts:
            await self.cut([_at(cut, blocks) for cut in self._cuts])
        if self._losses:
            await self.lose([_at(loss, blocks) for loss in self._losses])

    # Its files, which nobody reaches.

    async def get(self, path: str) -> bytes | None:
        return None

    async def files(self, folder: str) -> list[str]:
        return []

    async def sizes(self, folder: str) -> dict[str, int]:
        return {}

    async def partition(self, path: str) -> int:
        self._refuse("look at its disk")

    async def remove(self, path: str) -> None:
        self._refuse("remove files")

    async def put(self, path: str, data: bytes) -> None:
        self._refuse("write files")

    async def age(self, path: str, by_ms: int) -> int | None:
        self._refuse("change files")

    async def fill(self, percent: int) -> None:
        self._refuse("fill its disk")

    async def set_disk(
        self,
        *,
        full: bool = False,
        sync_ms: int | None = None,
        frozen: bool = False,
        misread: Misread | None = None,
        failing: str = "",
    ) -> None:
        self._refuse("break its disk")

    async def try_disk(self, *, timeout_s: float) -> Written:
        self._refuse("try its disk")

    async def power_loss(self) -> dict[str, int]:
        self._refuse("take its power")

    async def set_clock(self, offset_ms: int, drift_ppm: int) -> None:
        self._refuse("set its clock")

    async def clock(self, pid: int | None) -> ClockShown:
        self._refuse("read its clock")

    async def set_delay(self, delays: Sequence[Delay]) -> None:
        self._refuse("delay its packets")

    async def delays(self) -> Sequence[Delay]:
        return ()

    async def detour(self) -> None:
        return None

    async def echo(self, peer: str) -> Echo:
        self._refuse("delay its packets")

    @property
    def dial(self) -> Dial:
        self._refuse("dial from it")

    async def set_address(self, address: str) -> None:
        self._refuse("change its address")

    async def set_hosts(self, hosts: Mapping[str, str]) -> None:
        self._refuse("change its names")

    def _refuse(self, what: str) -> NoReturn:
        raise MissingCapability(f"{self._name} is {self.whose}: nobody may {what}")


def _at(rule: Rule, blocks: Mapping[str, str]) -> Rule:
    """The same, for the address that its source has now; that of clients stays."""
    if rule.source == CLIENT:
        return rule
    return msgspec.structs.replace(rule, block=blocks[rule.source])
