"""A cluster that is captured while a scenario is played on it: what a scenario can do and ask.

Two places ask. The client's connections are in the capture; the observer's, by which the scene
waits for something, are not. Every wait is for a condition and has a bound; marks say what was
begun, what was found, and when. Units: seconds.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec

from benchmarks.captures.packets import Listener
from maxq.harness.client.probes import until
from maxq.harness.cluster.deployment import Deployment
from maxq.harness.contracts.cluster import Killable
from maxq.harness.contracts.environment import (
    CLIENT,
    CLIENT_ADDRESS,
    EnvironmentLost,
    MachineSpec,
    Role,
)
from maxq.harness.environments.local import LOST, LocalEnvironment
from maxq.harness.environments.machines.netns_agent import BRIDGE
from maxq.reference.records import RemoteProtocolError
from maxq.reference.rpc import Connection, Handler, Pool, Reply, refuse
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import CheckTransactionRequest, Header, from_ext, to_ext
from maxq.reference.wire.node_headers import MemberGroupRequest
from maxq.reference.wire.route import MASTER_ID, MemberGroupBody

CALL_S = 6.0  # above slaveTimeout, so that its answer comes
ASK_S = 3.0


class CapturedEnvironment(LocalEnvironment):
    """Environment `local`, whose bridge is listened to from before its first node starts.

    Args:
        folder: of the machines.
        file: of the packets.
    """

    def __init__(self, folder: Path, file: Path) -> None:
        super().__init__(folder)
        self._file = file
        self._listener: Listener | None = None

    async def up(self, machines: Sequence[MachineSpec]) -> None:
        await super().up(machines)
        if self._agent is None:
            raise EnvironmentLost(LOST)
        inside = self._agent.process.pid
        self._listener = await asyncio.to_thread(Listener, inside, BRIDGE, self._file)

    async def heard(self) -> int:
        """Stop listening; how many packets there were. Raises PacketsLost."""
        listener, self._listener = self._listener, None
        if listener is None:
            raise EnvironmentLost(LOST)
        return await asyncio.to_thread(listener.end)

    async def down(self) -> None:
        if self._listener is not None:
            self._listener.kill()
        await super().down()


class Scene:
    """What a scenario acts on.

    Args:
        cluster: brought up.
        group: the tasks.
        began: when the capture began, by the wall clock.
    """

    def __init__(self, cluster: Deployment, group: asyncio.TaskGroup, began: float) -> None:
        self.cluster = cluster
        self.marks: list[tuple[float, str]] = []
        self.questions: list[Frame] = []  # what brokers asked the client
        self._began = began
        self._group = group
        self._pools = [self._pool(), Pool(group, dial=cluster.observer_dial)]

    def _pool(self) -> Pool:
        handler: Handler = self._on_question
        return Pool(self._group, dial=self.cluster.dial, handler=handler)

    def _on_question(self, request: Frame, connection: Connection) -> Reply:
        self.questions.append(request)
        return None if request.is_oneway else refuse(request, connection)

    def asked_by(self, broker_set: str) -> list[CheckTransactionRequest]:
        """What a set has asked about half messages (39), oldest first."""
        wanted = RequestCode.CHECK_TRANSACTION_STATE
        found = [
            from_ext(CheckTransactionRequest, q.ext) for q in self.questions if q.code == wanted
        ]
        return [q for q in found if q.bname == broker_set]

    def close(self) -> None:
        """End its connections."""
        for pool in self._pools:
            pool.close()

    def mark(self, text: str) -> None:
        """Say what is begun, or was found."""
        self.marks.append((time.time() - self._began, text))

    # What is done.

    async def kill(self, node: str) -> None:
        self.mark(f"{node} is killed")
        proof = await self.cluster.offers(Killable).kill(node)
        if not proof.holds:
            raise RuntimeError(f"{node} was not killed: {proof.seen}")

    async def start(self, node: str) -> None:
        self.mark(f"{node} starts")
        proof = await self.cluster.offers(Killable).start(node)
        if not proof.holds:
            raise RuntimeError(f"{node} did not start: {proof.seen}")
        self.mark(f"{node} serves its port")

    async def ask(
        self,
        node: str,
        code: RequestCode,
        header: Header | None = None,
        *,
        ext: Mapping[str, str] | None = None,
        body: bytes | None = None,
        anew: bool = False,
        port: int | None = None,
        within_s: float = CALL_S,
    ) -> Frame | None:
        """Ask a node from the client, note the answer's code and header, and return it.

        Args:
            ext: instead of a header.
            anew: over a connection of its own.
            port: of another than the node itself, on its machine.
            within_s: how long the answer may take.
        """
        pool = self._pools[0]
        if anew:
            pool = self._pool()
            self._pools.append(pool)
        found = dict(ext) if ext is not None else to_ext(header) if header is not None else {}
        request = Frame(code=code, ext=found, body=body)
        answer = await _answer(pool, self._at(node, port), request, within_s)
        said = "no answer"
        if answer is not None:
            more = answer.remark if answer.code else answer.ext
            said = f"{answer.code} {more or ''}".strip()[:200]
        where = node if port is None else f"{node}, port {port}"
        self.mark(f"{int(code)} at {where}: {said}")
        return answer

    # What is waited for.

    async def seen(self, what: str, holds: Callable[[], Awaitable[bool]], bound_s: float) -> bool:
        """Wait for something, and note whether it came."""
        begun = time.monotonic()
        came = await until(holds, bound_s)
        took = time.monotonic() - begun
        self.mark(f"{what} after {took:.1f} s" if came else f"not within {bound_s:g} s: {what}")
        return came

    def _at(self, node: str, port: int | None) -> str:
        address = self.cluster.address(node)
        return address if port is None else f"{address.rpartition(':')[0]}:{port}"

    async def observe(
        self,
        node: str,
        code: RequestCode,
        header: Header | None = None,
        *,
        port: int | None = None,
    ) -> Frame | None:
        """Ask a node from the observer."""
        request = Frame(code=code, ext={} if header is None else to_ext(header))
        with suppress(KeyError):  # it has no address yet
            return await _answer(self._pools[1], self._at(node, port), request, ASK_S)
        return None

    async def holds(self, nodes: Sequence[str], code: RequestCode, word: str) -> bool:
        """Whether all these nodes have a word in their answer."""
        answers = [await self.observe(node, code) for node in nodes]
        return all(a is not None and word.encode() in (a.body or b"") for a in answers)

    async def copied(self, slaves: Sequence[str], topic: str, group: str, bound_s: float) -> None:
        """Wait until slaves have their master's tables."""
        topics = partial(self.holds, slaves, RequestCode.GET_ALL_TOPIC_CONFIG, topic)
        groups = partial(self.holds, slaves, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, group)
        await self.seen(f"{topic} is known to {', '.join(slaves)}", topics, bound_s)
        await self.seen(f"{group} is known to them", groups, ASK_S)

    async def members(self, namesrv: str, broker_set: str) -> dict[int, str]:
        """Ids and addresses that a name server has of a set."""
        header = MemberGroupRequest(
            cluster_name=self.cluster.settings.cluster, broker_name=broker_set
        )
        answer = await self.observe(namesrv, RequestCode.GET_BROKER_MEMBER_GROUP, header)
        if answer is None or answer.code != ResponseCode.SUCCESS:
            return {}
        group = MemberGroupBody.from_json(answer.body).broker_member_group
        return group.broker_addrs if group is not None else {}

    async def listed(self, node: str, listed: bool = True) -> bool:
        """Whether all name servers list a broker, or none of them does."""
        address, broker_set = self.cluster.address(node), node.partition("-")[0]
        every = [
            address in (await self.members(n.name, broker_set)).values()
            for n in self.cluster.by_role(Role.NAMESRV)
        ]
        return all(one is listed for one in every)

    async def led(self, broker_set: str) -> bool:
        """Whether all name servers list a master of a set."""
        names = [n.name for n in self.cluster.by_role(Role.NAMESRV)]
        return all([MASTER_ID in await self.members(n, broker_set) for n in names])


async def _answer(pool: Pool, address: str, request: Frame, timeout_s: float) -> Frame | None:
    try:
        return await pool.call(address, request, timeout_s=timeout_s)
    except (OSError, RemoteProtocolError):
        return None


def names(cluster: Deployment) -> dict[str, str]:
    """What the ends of connections are called, by address. The observer is nobody."""
    found = {cluster.address(n.name).rpartition(":")[0]: n.name for n in cluster.nodes}
    return {CLIENT_ADDRESS: CLIENT, **found}


class Settled(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a scenario: its marks, and how many packets were seen."""

    marks: Sequence[tuple[float, str]]
    packets: int
