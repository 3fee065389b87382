"""A cluster that runs already, as one that faults may strike: its nodes are taken over as they are.

Nothing of it is set up, stopped or read from disks. Topics and consumer groups of a run are made as
anywhere, and deleted at the end. `say` hears what differs then from before. Units: seconds.
"""

import signal
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

from maxq.harness.client.probes import probing, until
from maxq.harness.cluster.adopted.cluster_snapshots import Fact, Snapshot, differences, snapshot
from maxq.harness.cluster.deployment import Deployment
from maxq.harness.cluster.processes import NODE_LOG, START_TIMEOUT_S, Nodes
from maxq.harness.cluster.queries import Inquiry, SetupFailed
from maxq.harness.contracts.cluster import Grudge, Part, Proof
from maxq.harness.contracts.environment import Environment, MachineSpec, Port
from maxq.harness.contracts.target import Settings, Target
from maxq.reference.records import RemoteProtocolError
from maxq.reference.rpc import Pool
from maxq.reference.wire.codes import RequestCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import Header, to_ext
from maxq.reference.wire.node_headers import DeleteGroupRequest, TopicRequest

T = TypeVar("T")
OWN = "maxq"  # what the topics and consumer groups of runs are called, or how they begin
OF_GROUPS = ("%RETRY%", "%DLQ%")  # before a group's name: topics that brokers make for it
TOPIC, GROUP = "topic ", "consumer group "
DELETE_TIMEOUT_S, GONE_TIMEOUT_S = 10.0, 30.0  # slaves copy tables each 10 s


class AdoptedNodes(Nodes):
    """Nodes that somebody else started. An engine takes the address of a container that has ended,
    so that nobody refuses there.

    Args:
        only: those that faults may strike; empty: all.
    """

    met_of_ended = frozenset[Port](("refused", "silent"))

    def __init__(
        self, environment: Environment, target: Target, settings: Settings, only: Sequence[str]
    ) -> None:
        super().__init__(environment, target, settings)
        self._only = frozenset(only)

    def strikes(self, node: str) -> bool:
        """Whether faults may strike it."""
        return not self._only or node in self._only

    def between(self, grudge: Grudge) -> dict[str, frozenset[str]]:
        """As anywhere, but nobody drops packets whom no fault may strike: who is cut off hears
        nobody, and that suffices."""
        found = super().between(grudge)
        return {to: sources for to, sources in found.items() if self.strikes(to)}

    def adopt(self, pids: Mapping[str, int]) -> None:
        """Take over the processes that they have."""
        self._pids |= pids
        self._wanted |= dict.fromkeys(pids, True)

    async def spawn(self, node: str) -> None:
        """Start it as whoever made it said."""
        status = await self.machine(node).spawn((), log=NODE_LOG)
        self._pids[self.process(node)] = status.pid

    async def _ended(self, node: str, *expected: int) -> Proof:
        """As anywhere. How a process ended is told to whoever started it: elsewhere a machine says
        by which signal it was asked to."""
        return await super()._ended(node, *expected, -signal.SIGTERM)

    async def identity(self, node: str) -> int | None:
        """By the file that describes the cluster."""
        return self.node(node).replica

    async def stored(self, node: str, folder: str) -> dict[str, bytes]:
        raise self._no_store(node)

    async def sizes(self, node: str) -> dict[str, int]:
        raise self._no_store(node)

    async def partition(self, node: str) -> int:
        raise self._no_store(node)

    def _no_store(self, node: str) -> OSError:
        return OSError(f"the store of {node} is on a machine of somebody else")


class _Rejoined:
    """Whether a cluster that others write to is level again: its logs never have the same ends."""

    def __init__(self, queries: Inquiry) -> None:
        self.level = queries.whole


class Adopted(Deployment):
    """A cluster that runs already.

    Args:
        environment: where its nodes are.
        target: what they are.
        settings: how they are set up, by their own answers.
        only: the nodes that faults may strike; empty: all.
        pids: the processes of the nodes, once the environment is up.
        say: hears what differs at the end.
    """

    def __init__(
        self,
        environment: Environment,
        target: Target,
        settings: Settings,
        *,
        only: Sequence[str] = (),
        pids: Callable[[], Mapping[str, int]],
        say: Callable[[str], None],
    ) -> None:
        self._adopted = AdoptedNodes(environment, target, settings, only)
        super().__init__(environment, target, settings, self._adopted)
        self._pids = pids
        self._say = say
        self._before: Snapshot = {}
        self.left: tuple[str, ...] = ()  # what differs at the end

    async def up(self) -> None:
        """Find all nodes, and see that the cluster is whole. What runs have left is deleted.

        Raises:
            SetupFailed: it is not whole: nothing is done to such a cluster.
            MissingCapability, EnvironmentUnavailable: its nodes cannot be reached.
        """
        await self._environment.up([MachineSpec(name=n) for n in self.processes.processes])
        self._adopted.adopt(self._pids())
        if not await until(self._ready, START_TIMEOUT_S):
            raise SetupFailed(
                "the cluster is not whole, and nothing was done to it: for "
                f"{START_TIMEOUT_S:.0f} s name servers and controllers did not agree on a master "
                "of each broker set, or a slave was not in sync"
            )
        await self._delete_own()
        self._before = await snapshot(self)

    def offers(self, contract: type[T]) -> T:
        """As anywhere; who waits until it is level waits until all replicas are in sync."""
        rejoined = _Rejoined(self.queries)
        return rejoined if isinstance(rejoined, contract) else super().offers(contract)

    async def playing(self, part: Part) -> Sequence[str]:
        """Of those that faults may strike: nobody else asks."""
        return [node for node in await super().playing(part) if self._adopted.strikes(node)]

    async def stop_all(self) -> list[str]:
        """They go on. What the run has made is deleted; `left` is what differs."""
        if self._before:
            await self._delete_own()
            self.left = tuple(differences(self._before, await snapshot(self)))
            for line in self.left or ("nothing differs from before the run",):
                self._say(line)
        return []

    async def collect(self) -> AsyncIterator[tuple[str, str, bytes]]:
        """What each node wrote last, where its machine knows."""
        for process in self.processes.spawned():
            machine = self.processes.machine(process)
            data = await machine.get(f"{machine.data_dir}/{NODE_LOG}")
            if data is not None:
                yield process, NODE_LOG, data

    async def _delete_own(self) -> None:
        """Delete topics and groups of runs, and wait until no broker has any."""

        async def gone() -> bool:
            own = self._own(await snapshot(self))
            if not own:
                return True
            async with probing(self.observer_dial) as pool:
                for node, what in own:
                    await self._delete(pool, node, what)
            return False

        await until(gone, GONE_TIMEOUT_S)

    def _own(self, facts: Iterable[Fact]) -> list[tuple[str, str]]:
        """Of each broker what is a run's, as ``topic T`` or ``consumer group G``."""
        return [(fact.who, fact.what) for fact in facts if is_own(fact.what)]

    async def _delete(self, pool: Pool, node: str, what: str) -> None:
        if what.startswith(GROUP):
            group = DeleteGroupRequest(group_name=what.removeprefix(GROUP), clean_offset=True)
            await _asked(pool, [self.address(node)], RequestCode.DELETE_SUBSCRIPTIONGROUP, group)
            return
        header = TopicRequest(topic=what.removeprefix(TOPIC))
        await _asked(pool, [self.address(node)], RequestCode.DELETE_TOPIC_IN_BROKER, header)
        await _asked(pool, self.namesrvs(), RequestCode.DELETE_TOPIC_IN_NAMESRV, header)


def is_own(what: str) -> bool:
    """Whether it is a topic or a group of runs, or a topic that brokers make for such a group."""
    kind = next((kind for kind in (TOPIC, GROUP) if what.startswith(kind)), None)
    if kind is None:
        return False
    name = what.removeprefix(kind)
    bare = next((name.removeprefix(p) for p in OF_GROUPS if name.startswith(p)), name)
    return bare == OWN or bare.startswith(f"{OWN}-")


async def _asked(pool: Pool, addresses: Sequence[str], code: int, header: Header) -> None:
    """Have nodes delete something; whoever does not is looked at again."""
    request = Frame(code=code, ext=to_ext(header))
    for address in addresses:
        with suppress(OSError, RemoteProtocolError):
            await pool.call(address, request, timeout_s=DELETE_TIMEOUT_S)
