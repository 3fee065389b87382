"""Hosts that are reached over ssh, with nodes that somebody else started, as an environment.

They are there before `up` and after `down`. An agent of ours runs on each of them meanwhile, and
changes nothing but what a fault does; it undoes that at the end, and its watchdog does so when the
harness or the link is gone (`maxq.harness.environments.attached.host_watchdog`). Clients and
observers dial from this process.
"""

import asyncio
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import msgspec

from maxq.harness.contracts.environment import (
    Capability,
    EnvironmentLost,
    Lack,
    MachineSpec,
    MissingCapability,
)
from maxq.harness.contracts.existing import Existing, Member
from maxq.harness.environments.attached.foreign_machine import OF_NETWORKS, OF_PROCESSES
from maxq.harness.environments.attached.host_machine import HostMachine
from maxq.harness.environments.attached.ssh_link import HostLink, Where, link_to
from maxq.reference.rpc import Dial, loop_dial

NAME = "attached"
HEAL_TIMEOUT_S = 60.0
CLOCK_LOOKS = 5  # the one that took the least counts
CLOCK_SAID_MS = 100.0  # an offset beyond is said


class Offset(msgspec.Struct, frozen=True):
    """How far a host's wall clock is ahead of this machine's (ms), and by how much that may be
    wrong: half of the time in which it was asked."""

    ahead_ms: float
    within_ms: float


class AttachedHosts:
    """The hosts of a cluster's nodes, from `up` to `down`.

    Args:
        existing: the cluster; each of its nodes has a line `ssh`.
        folder: of the run's nodes; nothing of them is written there but what machines share.
        needs: what the run's faults need.
        say: called with what somebody should know.
    """

    name = NAME

    def __init__(
        self,
        existing: Existing,
        folder: Path,
        *,
        needs: frozenset[Capability] = OF_PROCESSES,
        say: Callable[[str], None],
    ) -> None:
        self._existing = existing
        self._folder = folder.resolve()
        self._networked = bool(needs & OF_NETWORKS)
        self._say = say
        self._links: dict[str, HostLink] = {}  # by `ssh` of the file
        self._machines: dict[str, HostMachine] = {}
        self._clocks: dict[str, dict[str, Offset]] = {}

    @property
    def capabilities(self) -> frozenset[Capability]:
        return OF_PROCESSES | OF_NETWORKS

    def lacking(self) -> Mapping[Capability, Lack]:
        return {}

    @property
    def clocks(self) -> Mapping[str, object]:
        """How far each host's clock was off at the `start` and at the `end`."""
        found: dict[str, object] = msgspec.to_builtins(self._clocks)
        return found

    async def up(self, machines: Sequence[MachineSpec]) -> None:
        try:
            await self._up()
        except BaseException:
            await self.down()
            raise

    async def _up(self) -> None:
        placed(self._existing, networked=self._networked)
        base, files = Path(self._existing.file).parent, self._existing.ssh
        texts = [*dict.fromkeys(member.ssh for member in self._existing.members)]
        # No task group: a login is a thread, which goes on where its task is cancelled.
        links = await asyncio.gather(
            *(link_to(text, files, base, nft=self._networked) for text in texts),
            return_exceptions=True,
        )
        reached = zip(texts, links, strict=True)
        self._links |= {text: link for text, link in reached if isinstance(link, HostLink)}
        for link in links:
            if isinstance(link, BaseException):
                raise link
        for text, link in self._links.items():
            await self._adopt(link, [m for m in self._existing.members if m.ssh == text])
        await self._compare("start")
        for line in self.said():
            self._say(line)

    async def _adopt(self, link: HostLink, members: Sequence[Member]) -> None:
        """Find the processes of a host's nodes."""
        nodes = [_described(member) for member in members]
        try:
            answer, _ = await link.ask("nodes", nodes=nodes)
        except OSError as error:
            raise MissingCapability(f"{self._existing.file}: {error}") from None
        pids: dict[str, int] = answer["pids"]
        owner: dict[int, str] = {}
        for member in members:
            pid = pids[member.name]
            if not pid:
                raise MissingCapability(_not_there(member, self._existing.file))
            if other := owner.get(pid):
                raise MissingCapability(
                    f"{self._existing.file}: {other} and {member.name} are one process, {pid} of "
                    f"{link.where}: a fault would strike both; correct address or pid"
                )
            owner[pid] = member.name
            address = await self._address(link, member)
            self._machines[member.name] = HostMachine(
                link, member, address, str(self._folder / member.name), pid,
                networked=self._networked,
            )  # fmt: skip

    async def _address(self, link: HostLink, member: Member) -> str:
        """Where a node is, as a number; its host must have it, if packets are to be cut."""
        host = member.address.rpartition(":")[0]
        try:
            found = await asyncio.to_thread(socket.gethostbyname, host)
        except OSError as error:
            raise MissingCapability(f"{member.name}: {host}: {error.strerror}") from None
        if self._networked and not (await link.ask("has", address=found))[0]["has"]:
            raise MissingCapability(
                f"{member.name} is known at {found}, which {link.where} has not: packets between "
                "nodes can be cut and lost only where each host has the address of its node; "
                "--nemesis kill,pause needs none"
            )
        return found

    async def _compare(self, moment: str) -> None:
        """Compare all clocks with this machine's."""
        for text, link in self._links.items():
            looks = [await _look(link) for _ in range(CLOCK_LOOKS)]
            best = min(looks, key=lambda look: look.within_ms)
            self._clocks.setdefault(text, {})[moment] = best

    def said(self) -> Iterator[str]:
        """Of which hosts the clocks are off."""
        for text, moments in self._clocks.items():
            last = list(moments.values())[-1]
            if abs(last.ahead_ms) > CLOCK_SAID_MS:
                way = "ahead of" if last.ahead_ms > 0 else "behind"
                yield (
                    f"the clock of {text} is {abs(last.ahead_ms) / 1000:.1f} s {way} this "
                    "machine's: times in its logs are off; no verdict reads them"
                )

    async def lost(self) -> None:
        gone = [link.gone for link in self._links.values()]
        await asyncio.wait(gone, return_when=asyncio.FIRST_COMPLETED)
        self._lost()

    def _lost(self) -> NoReturn:
        lost = [link.lost for link in self._links.values() if link.gone.done()]
        raise EnvironmentLost(lost[0] if lost else "no host is reached")

    def pids(self) -> Mapping[str, int]:
        """The process of each node."""
        return {name: machine.pid for name, machine in self._machines.items()}

    def machine(self, name: str) -> HostMachine:
        return self._machines[name]

    def entrance(self, name: str) -> str:
        where = Where.of(next(m.ssh for m in self._existing.members if m.name == name))
        return f"ssh -p {where.port} {where.user}@{where.host}"

    @property
    def dial(self) -> Dial:
        return loop_dial

    @property
    def observer_dial(self) -> Dial:
        return loop_dial

    async def down(self) -> None:
        with suppress(EnvironmentLost, OSError):
            await self._compare("end")
        links, self._links = self._links, {}
        await asyncio.gather(*(self._leave(text, link) for text, link in links.items()))

    async def _leave(self, text: str, link: HostLink) -> None:
        """Have a host put right; where that cannot be heard of, its watchdog does it."""
        try:
            async with asyncio.timeout(HEAL_TIMEOUT_S):
                answer, _ = await link.ask("heal")
            for what in answer["left"]:
                self._say(f"left behind at {text}: {what}")
        except (EnvironmentLost, OSError) as error:
            self._say(f"{text} did not say that all is right there, its watchdog goes on: {error}")
        finally:
            link.close()


async def _look(link: HostLink) -> Offset:
    before = time.time_ns()
    answer, _ = await link.ask("clock")
    after = time.time_ns()
    return Offset((answer["ns"] - (before + after) / 2) / 1e6, (after - before) / 2e6)


def _described(member: Member) -> dict[str, object]:
    """A node as its agent is told of it."""
    port = int(member.address.rpartition(":")[2])
    own = {"unit": member.unit, "start": member.start, "stop": member.stop, "pid": member.pid}
    return {"name": member.name, "port": port, **own}


def _not_there(member: Member, file: str) -> str:
    if member.pid:
        return f"{file}: {member.name}: pid = {member.pid!r} says no process that lives: correct it"
    return (
        f"{file}: {member.name}: nobody listens at {member.address} on {member.ssh}: start it, "
        "correct its address, or add a line pid"
    )


def placed(existing: Existing, *, networked: bool) -> None:
    """See that the file says of each node how faults reach it.

    Raises:
        MissingCapability: it does not, or they cannot be told apart.
    """
    on: dict[str, Member] = {}
    started: dict[tuple[str, str], str] = {}
    for member in existing.members:
        if not member.ssh:
            raise MissingCapability(
                f"{existing.file}: {member.name} has no line ssh, and others have: either all "
                "nodes of a cluster are on hosts, or all in containers of this machine"
            )
        other = on.setdefault(member.ssh, member)
        if networked and other is not member:
            raise MissingCapability(
                f"{other.name} and {member.name} are on one host, {member.ssh}: packets are cut "
                "and lost only between hosts; --nemesis kill,pause needs none"
            )
        twin = started.setdefault((member.ssh, member.how), member.name)
        if twin != member.name:
            raise MissingCapability(
                f"{existing.file}: {twin} and {member.name} are started by one thing, "
                f"{member.how} of {member.ssh}: a fault would strike both"
            )


async def looked_at(existing: Existing, needs: frozenset[Capability]) -> list[str]:
    """What somebody should know of the hosts of a cluster, before anything is done to it.

    Raises:
        MissingCapability: it cannot be tested.
    """
    found: list[str] = []
    hosts = AttachedHosts(existing, Path(), needs=needs, say=found.append)
    await hosts.up(())
    await hosts.down()
    return found
