"""A host of somebody else as a machine: one node's process there, and the network of the host.

All is done by the agent there (`maxq.harness.environments.attached.host_agent`). Units: seconds.
"""

from collections.abc import Sequence

from maxq.harness.client.probes import until
from maxq.harness.contracts.environment import (
    CLIENT,
    Cut,
    MissingCapability,
    Port,
    ProcessStatus,
)
from maxq.harness.contracts.existing import Member
from maxq.harness.environments.attached.foreign_machine import ForeignMachine
from maxq.harness.environments.attached.ssh_link import HostLink
from maxq.harness.environments.machines.machine import LinkedNetwork

START_TIMEOUT_S = 60.0  # a JVM on a busy host


class HostNetwork(LinkedNetwork):
    """The network of a host, as its agent changes it: the port of ssh is spared.

    Args:
        link: to the agent.
        name: of the node.
    """

    def __init__(self, link: HostLink, name: str) -> None:
        super().__init__(link, name, client="", spared=link.port)

    async def cut(self, cuts: Sequence[Cut]) -> None:
        if any(cut.source == CLIENT for cut in cuts):
            raise MissingCapability(
                "clients and observers dial from one address here: no cut takes only the first"
            )
        await super().cut(cuts)

    async def probe(self, host: str, port: int, *, timeout_s: float) -> Port:
        answer, _ = await self._link.ask("probe", host=host, port=port, timeout_s=timeout_s)
        met: Port = answer["met"]
        return met


class HostMachine(ForeignMachine):
    """A host, for one node.

    Args:
        link: to its agent.
        member: the node, as the file of its cluster has it.
        address: of the node, as a number.
        folder: of the run, where logs of containers go.
        pid: the node's process.
        networked: whether its network may be changed.
    """

    whose = "on a host of somebody else"

    def __init__(
        self, link: HostLink, member: Member, address: str, folder: str, pid: int, *,
        networked: bool,
    ) -> None:  # fmt: skip
        super().__init__(member.name, address, folder)
        self._link, self._member = link, member
        self.pid = pid
        self.network = HostNetwork(link, member.name) if networked else None

    async def spawn(self, argv: Sequence[str], *, log: str) -> ProcessStatus:
        """Start the node as its file says, and wait until its process is seen."""
        await self._link.ask("begin", name=self.name)

        async def seen() -> bool:
            answer, _ = await self._link.ask("find", name=self.name)
            self.pid = answer["pid"]
            return bool(self.pid)

        if not await until(seen, START_TIMEOUT_S):
            raise OSError(
                f"{self._link.where}: {self._member.how} was started, and no process of "
                f"{self.name} was seen for {START_TIMEOUT_S:.0f} s"
            )
        return ProcessStatus(pid=self.pid, code=None)

    async def signal(self, pid: int, signal: int) -> None:
        await self._link.ask("signal", name=self.name, pid=pid, number=signal)

    async def status(self, pid: int) -> ProcessStatus:
        """As the contract says; `code` is minus the signal that was sent to end it."""
        answer, _ = await self._link.ask("status", pid=pid)
        return ProcessStatus(pid=pid, code=answer["code"], stopped=answer["stopped"])

    async def command(self, pid: int) -> Sequence[str]:
        answer, _ = await self._link.ask("command", pid=pid)
        return [str(word) for word in answer["argv"]]
