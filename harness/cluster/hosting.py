"""Brokers that are added to a running container and removed from it (RIP-31), as an operator does.

902 and 903 go to the container's port. Each answer comes with what is seen right behind it: who is
listed by which name server, and what is met at the ports that the broker has or would have had. So
that such a request can fail, there are files whose broker needs a port of a neighbour. Seconds.
"""

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Any

import msgspec

from maxq.harness.client.probes import PROBE_TIMEOUT_S, met, probing, until
from maxq.harness.cluster.processes import Nodes
from maxq.harness.cluster.releases import Releases
from maxq.harness.contracts.cluster import Clash, Hosted, NothingThere, Proof
from maxq.harness.contracts.environment import Environment, Port, Role
from maxq.harness.contracts.target import Node
from maxq.reference.records import RemoteProtocolError
from maxq.reference.rpc import NotSent, split_address
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import to_ext
from maxq.reference.wire.node_headers import AddBrokerRequest, RemoveBrokerRequest
from maxq.reference.wire.route import ClusterInfo

FAILED_S = 15.0  # in which a broker syncs something, and ends where it cannot
NOT_THERE = 211  # a container's answer to a removal
ANSWER_TIMEOUT_S = 25.0  # an addition is answered after 18 s at the latest, a removal before
OWN_PORTS = {"fast": -2, "main": 0, "ha": 1}  # beside listenPort
# Which port of the newcomer is a neighbour's, and how far their listenPorts are apart then.
CLASHES: dict[Clash, int] = {"main": 0, "fast": 3, "ha": -3}


class Hosting:
    """What containers are asked to do.

    Args:
        environment: where they run.
        nodes: of the run.
        releases: what nodes are configured with.
        cluster_name: what brokers call their cluster.
    """

    def __init__(
        self, environment: Environment, nodes: Nodes, releases: Releases, cluster_name: str
    ) -> None:
        self._environment = environment
        self._nodes = nodes
        self._releases = releases
        self._cluster_name = cluster_name
        self._turns: dict[str, asyncio.Lock] = {}  # by process

    async def add_broker(self, node: str, clash: Clash | None = None) -> Hosted:
        async with self._turn(node):
            return await self._add(node, clash=clash)

    async def remove_broker(self, node: str) -> Hosted:
        async with self._turn(node):
            return await self._remove(node)

    async def move_broker(self, node: str) -> Hosted:
        here, names = self._nodes.process(node), sorted(self._nodes.containers)
        there = names[(names.index(here) + 1) % len(names)]
        async with self._turn(node):
            gone = await self._remove(node)
            if gone.code not in (ResponseCode.SUCCESS, NOT_THERE):
                raise RemoteProtocolError(f"{here} did not remove {node}: {gone.remark}")
            await self._nodes.move_store(node, there)
        async with self._turn(node):
            try:
                own = self._nodes.node(node)
                config = self._releases.config_of(own).encode()
                await self._nodes.machine(node).put(self._nodes.config_path(node), config)
                return await self._add(node)
            except NotSent as error:  # but the removal was
                raise RemoteProtocolError(f"{there} was not asked: {error}") from None

    def removed(self, node: str) -> bool:
        return node in self._nodes.removed and self._nodes.wanted(node)

    async def remove(self, node: str) -> Proof:
        async with self._turn(node):
            # Whatever comes of it: one that goes without an answer has not ended by itself.
            self._nodes.removed.add(node)
            return await self._proven(node, self._remove(node, observer=True), "refused")

    async def add(self, node: str) -> Proof:
        async with self._turn(node):
            proof = await self._proven(node, self._add(node, observer=True), "open")
            if proof.holds:
                self._nodes.removed.discard(node)
            return proof

    async def fail_store(self, node: str) -> Proof:
        machine, own = self._nodes.machine(node), self._nodes.node(node)

        async def ended() -> bool:
            return {*(await self._ports(own)).values()} == {"refused"}

        async with self._turn(node):
            self._nodes.removed.add(node)
            await machine.set_disk(failing=self._nodes.store(node))
            try:
                holds = await until(ended, FAILED_S)
            finally:
                await machine.set_disk()
            if not holds:
                self._nodes.removed.discard(node)
                raise NothingThere(f"{node} wrote nothing for {FAILED_S:g} s")
            return Proof(holds, {"ports": await self._ports(own)})

    def _turn(self, node: str) -> asyncio.Lock:
        """A container is asked for one thing at a time: whose port a newcomer wants must not go
        meanwhile."""
        return self._turns.setdefault(self._nodes.process(node), asyncio.Lock())

    async def _add(
        self, node: str, *, clash: Clash | None = None, observer: bool = False
    ) -> Hosted:
        own = self._nodes.node(node)
        path = self._nodes.config_path(node)
        if clash is not None:
            neighbour = await self._serving(own.process)
            if neighbour is None:
                raise NotSent(f"{own.process} has no broker whose port could be wanted")
            own = msgspec.structs.replace(own, port=neighbour.port + CLASHES[clash])
            path = f"{self._nodes.folder(node)}/clash-{clash}.conf"
            await self._nodes.machine(node).put(path, self._releases.config_of(own).encode())
        header = AddBrokerRequest(config_path=path)
        request = Frame(code=RequestCode.ADD_BROKER, ext=to_ext(header))
        return await self._asked(own, request, observer=observer)

    async def _serving(self, process: str) -> Node | None:
        """A broker of a container that has its port. One that has yet to start could lose it to the
        newcomer, as RocketMQ's container takes requests before its file's brokers have started."""
        for name in self._nodes.on(process):
            if name not in self._nodes.removed and await self._nodes.port(name) == "open":
                return self._nodes.node(name)
        return None

    async def _remove(self, node: str, *, observer: bool = False) -> Hosted:
        own = self._nodes.node(node)
        broker_id = own.replica if self._releases.pairs else await self._nodes.identity(node)
        header = RemoveBrokerRequest(
            broker_cluster_name=self._cluster_name,
            broker_name=own.broker_set,
            broker_id=-1 if broker_id is None else broker_id,
        )
        request = Frame(code=RequestCode.REMOVE_BROKER, ext=to_ext(header))
        return await self._asked(own, request, observer=observer)

    async def _proven(self, node: str, asked: Awaitable[Hosted], port: Port) -> Proof:
        """What a container answers, and that all ports of the broker show what was asked for. One
        that nobody registers in time is there, and the answer no success."""
        try:
            said = await asked
        except (OSError, RemoteProtocolError) as error:
            ports = await self._ports(self._nodes.node(node))
            seen: dict[str, Any] = {"ports": ports, "reason": f"no answer: {error}"}
        else:
            ports = dict(said.ports)
            why = {"reason": said.remark} if said.code else {}
            seen = {"answer": said.code, "ports": ports, **why}
        return Proof({*ports.values()} == {port}, seen)

    async def _asked(self, node: Node, request: Frame, *, observer: bool) -> Hosted:
        """A container's answer, and what is seen then. Cuts reach a client, and no observer. Raises
        OSError, RemoteProtocolError."""
        dial = self._environment.observer_dial if observer else self._environment.dial
        async with probing(dial) as pool:
            address = self._nodes.address(node.process)
            answer = await pool.call(address, request, timeout_s=ANSWER_TIMEOUT_S)
        return Hosted(
            code=answer.code,
            remark=answer.remark or "",
            listed=await self._listed(),
            ports=await self._ports(node),
            beside=self._nodes.on(node.process),
        )

    async def _ports(self, node: Node) -> dict[str, Port]:
        """What is met at the ports of a broker, but for those that others in its container have."""
        host, _ = split_address(self._nodes.address(node.name))
        names = [name for name in self._nodes.on(node.process) if name != node.name]
        others = [self._nodes.node(name).port for name in names]
        taken = {port + by for port in others for by in OWN_PORTS.values()}
        found = {}
        for name, by in OWN_PORTS.items():
            if node.port + by not in taken:
                at = host, node.port + by
                dialled = self._environment.observer_dial(asyncio.Protocol, *at)
                found[name] = await met(dialled, PROBE_TIMEOUT_S)
        return found

    async def _listed(self) -> Mapping[str, tuple[str, ...]]:
        """The nodes that each name server lists which answers; of others their addresses."""
        names = {self._nodes.address(n.name): n.name for n in self._nodes.all if n.broker_set}
        found = {}
        request = Frame(code=RequestCode.GET_BROKER_CLUSTER_INFO, ext={})
        async with probing(self._environment.observer_dial) as pool:
            for node in self._nodes.all:
                if Role.NAMESRV not in node.roles:
                    continue
                try:
                    address = self._nodes.address(node.name)
                    answer = await pool.call(address, request, timeout_s=PROBE_TIMEOUT_S)
                    table = ClusterInfo.from_json(answer.body).broker_addr_table
                except (OSError, RemoteProtocolError):
                    continue
                every = {a for data in table.values() for a in data.broker_addrs.values()}
                found[node.name] = tuple(sorted(names.get(address, address) for address in every))
        return found
