"""A small cluster one of whose nodes will crash at a point, and whether it becomes whole again.

One client sends message after message to anyone who is master of each broker set, and remembers
what was acknowledged.
Nodes are configured as a run's are (profile P-SAFE, SYNC_FLUSH), with a timing that is shorter than
`fast`, since only order matters here. Brokers without controllers are in
`maxq.harness.experiments.crash_points.pair_arena`. Times are seconds of virtual time.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, ClassVar, cast

import msgspec

from maxq.harness.contracts.environment import CLIENT_ADDRESS, Role, machine_address
from maxq.harness.contracts.layouts import LayoutKind
from maxq.harness.contracts.target import Node, Profile, Settings, Topology, plan
from maxq.harness.simulation.crash_points import Crash, PointDisk, Points
from maxq.harness.simulation.disk import SimDisk
from maxq.harness.simulation.loop import SimLoop
from maxq.harness.simulation.oracle.oracle import Oracle
from maxq.harness.simulation.world import World
from maxq.harness.targets.reference import ReferenceTarget
from maxq.reference.__main__ import make_node
from maxq.reference.broker.membership.identity import IdentityError
from maxq.reference.broker.replication.epochs import CorruptEpochs
from maxq.reference.broker.server import Broker
from maxq.reference.broker.store.commit_log import CorruptLog
from maxq.reference.broker.store.store import Store
from maxq.reference.broker.store.topics import CorruptTable
from maxq.reference.broker.store.watermark import CorruptWatermark
from maxq.reference.controller.server import Controller
from maxq.reference.node import describe
from maxq.reference.node_file import parse_node
from maxq.reference.raft.storage import CorruptRaftLog
from maxq.reference.raft.watermark import ForeignRaftLog
from maxq.reference.records import QueueOffset, RemoteProtocolError
from maxq.reference.rpc import Pool
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.files import decode_identity
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import SendRequest, to_ext
from maxq.reference.wire.message import decode
from maxq.reference.wire.node_headers import ElectMasterRequest

SEED = "crash-points"
TOPIC = "T"
WHOLE_S = 40.0  # how long a cluster may take to be whole again
SEND_S = 0.1  # between two messages
LOOK_S = 0.02  # between two looks at whether something has come about
BROKER_SET = "b0"
AGE_MS = 80 * 3_600_000  # more than RocketMQ's fileReservedTime of 72 hours
QUICK: dict[Role, dict[str, str]] = {
    Role.NAMESRV: {},
    Role.CONTROLLER: {"scanNotActiveBrokerInterval": "200", "jRaftElectionTimeoutMs": "300"},
    Role.BROKER: {
        "autoCreateTopicEnable": "true",
        "brokerHeartbeatInterval": "300",
        "controllerHeartBeatTimeoutMills": "1000",
        "syncBrokerMetadataPeriod": "300",
        "checkSyncStateSetPeriod": "300",
        "haMaxTimeSlaveNotCatchup": "1000",
        "slaveTimeout": "800",
    },
}


class NotWhole(Exception):
    """What must come about did not, within its bound; or something is wrong."""


class Refuses(Exception):
    """The victim refuses to start and names a file."""


class HeldBack(Exception):
    """A broker stays out by itself and says why: what it has, its master has lost."""


REFUSALS = (
    *(CorruptEpochs, CorruptLog, CorruptRaftLog, CorruptTable, CorruptWatermark),
    *(ForeignRaftLog, IdentityError),
)


class Process(msgspec.Struct):
    """A node's process."""

    loop: SimLoop
    task: "asyncio.Task[None]"
    node: Any


class Arena:
    """A cluster, of one broker set if nothing else is said, one of whose nodes will crash.

    Args:
        crash: where; None to record the points.
        controllers, brokers: how many; brokers of each set.
        keys: more settings of the brokers.
        sync_flush: whether brokers sync before they answer.
    """

    profile: ClassVar[Profile] = "P-SAFE"
    quick: ClassVar[Mapping[Role, Mapping[str, str]]] = QUICK
    layout: ClassVar[LayoutKind | None] = None
    sets: ClassVar[tuple[str, ...]] = (BROKER_SET,)
    namesrvs: ClassVar[int] = 1

    def __init__(
        self,
        crash: Crash | None,
        *,
        controllers: int,
        brokers: int,
        keys: Mapping[str, str] | None = None,
        sync_flush: bool = True,
    ) -> None:
        self.crash = crash
        self.sync_flush = sync_flush
        self.world = World(SEED)
        self.oracle = Oracle(self.world)
        self.points = Points(crash)
        self.acked: list[bytes] = []
        self.taken = Counter[str]()  # how many of them by each broker set
        self._taker: dict[bytes, str] = {}  # by which one each; else by the first
        self.set_size = brokers
        self.processes: dict[str, Process] = {}
        self.old_master = ""  # before the flow
        self._acked_before = 0
        self._acked_old = 0  # how many are older than their retention
        self._keys = dict(keys or {})
        self._restarted = ""  # the victim, once it runs again
        self.replaced_count = 0  # stores that were removed, with their ids
        self._sent = 0
        self._sending = True
        sets = len(self.sets)
        topology = Topology(
            namesrvs=self.namesrvs,
            controllers=controllers,
            broker_sets=sets,
            replicas=brokers,
            layout=self.layout,
        )
        self._settings = Settings(topology=topology, profile=self.profile, sync_flush=sync_flush)
        self.nodes: dict[str, Node] = {n.name: n for n in plan(topology)}
        self._client, _ = self.world.process(self.world.add_machine("client", CLIENT_ADDRESS))
        names = dict.fromkeys(node.process for node in self.nodes.values())
        for number, name in enumerate(names, start=1):
            machine = self.world.add_machine(name, machine_address(number))
            machine.disk = cast(SimDisk, PointDisk(machine.disk, self.points, name))
        self._client.create_task(self._send_forever())

    # Nodes.

    def process(self, name: str) -> str:
        """The process that a node is in, alone or with others, and its machine."""
        return self.nodes[name].process if name in self.nodes else name

    def of(self, role: Role) -> list[str]:
        """Names of the nodes of a role."""
        return [n.name for n in self.nodes.values() if n.role is role]

    def start(self, *names: str) -> None:
        """Start processes."""
        for name in names:
            self._spawn(name, self.nodes[name].role.value, self._file(name))

    def _file(self, name: str) -> bytes:
        """A node's settings."""
        node, addresses = self.nodes[name], {n: self.address(n) for n in self.nodes}
        text = ReferenceTarget().config(node, self._settings, addresses, f"/{name}")
        lines = dict(line.split("=", 1) for line in text.splitlines())
        lines |= dict(self.quick[node.role]) | (self._keys if node.role is Role.BROKER else {})
        return "".join(f"{k}={v}\n" for k, v in lines.items()).encode()

    def _spawn(self, name: str, role: str, content: bytes, *, file: str = "", on: str = "") -> None:
        """Start a process, on its machine or on one of another name."""
        machine = self.world.machines[on or name]
        configs, _ = parse_node(role, content, name)
        loop, host = self.world.process(machine)
        made = make_node(configs, host, file=file)
        self.oracle.attach(loop, machine, made)
        task = loop.create_task(made.run(lambda: None))
        self.processes[name] = Process(loop, task, made)

    def begin(self, victim: str) -> None:
        """The flow begins: from now on all that the victim does is a point."""
        self._acked_before = len(self.acked)
        self.points.arm(victim)

    def age(self) -> None:
        """Let all that was written be older than its retention, by every wall clock."""
        self._acked_old = len(self.acked)
        for machine in self.world.machines.values():
            machine.set_clock(AGE_MS, 0)

    def fresh(self) -> bool:
        """Whether a message was acknowledged since the flow began."""
        return len(self.acked) > self._acked_before

    def restart(self, victim: str) -> None:
        """Start the victim again."""
        self._restarted = victim
        self.processes.pop(victim).loop.kill()
        self.start(victim)

    def restart_missing(self, victim: str) -> None:
        """Start a victim that was killed."""
        self._restarted = victim
        self.start(victim)

    def go_on(self) -> None:
        """Let the client send again, after `pause` or `become_whole`."""
        self._sending = True

    def pause(self) -> None:
        """Let the client send nothing, until it goes on."""
        self._sending = False

    def replace(self, victim: str) -> None:
        """Remove the victim's store, and let it begin anew."""
        if self.nodes[victim].role is not Role.BROKER:
            raise NotWhole(f"{victim} refuses to start")
        self.replaced_count += 1
        self._restarted = ""
        self.processes.pop(victim).loop.kill()
        self.world.machines[victim].disk.remove(f"/{victim}/store")
        self.oracle.wiped(victim, f"/{victim}/store")
        self.start(victim)

    def kill(self, *names: str) -> None:
        """Kill processes."""
        for name in names:
            self.processes.pop(name).loop.kill()

    def brokers(self) -> dict[str, Broker]:
        """The live brokers' node objects."""
        return {n: p.node for n, p in self.processes.items()
                if isinstance(p.node, Broker) and p.loop.alive}  # fmt: skip

    def controllers(self) -> dict[str, Controller]:
        """The live controllers' node objects."""
        return {n: p.node for n, p in self.processes.items()
                if isinstance(p.node, Controller) and p.loop.alive}  # fmt: skip

    def master(self, broker_set: str = BROKER_SET) -> str | None:
        """The broker of a set that acts as master in the newest epoch."""
        found = [(b.membership.master_epoch, n) for n, b in self.brokers().items()
                 if b.membership is not None and b.membership.role == "master"
                 and self.nodes[n].broker_set == broker_set]  # fmt: skip
        return max(found)[1] if found else None

    def members(self) -> frozenset[int]:
        """The SyncStateSet, as the master knows it."""
        master = self.master()
        membership = None if master is None else self.brokers()[master].membership
        if membership is None or membership.replication is None:
            return frozenset()
        return frozenset(membership.replication.master.members)

    def leader(self) -> str | None:
        """The controller that leads."""
        return next((n for n, c in self.controllers().items() if c.leads), None)

    def is_led(self) -> bool:
        """Whether there is who says which broker is master."""
        return self.leader() is not None

    # Time.

    def until(self, done: Callable[[], bool], what: str, *, seconds: float = WHOLE_S) -> None:
        """Run until something has come about, or the victim has crashed.

        Raises:
            NotWhole: neither within the bound.
        """
        scheduler = self.world.scheduler
        limit, fired = scheduler.now_ns + round(seconds * 1e9), self.points.fired
        while not done():
            if scheduler.now_ns > limit:
                raise NotWhole(f"{what}: not within {seconds} s")
            following = scheduler.now_ns + round(LOOK_S * 1e9)
            scheduler.run_until(
                lambda: scheduler.now_ns >= following or self.points.fired != fired  # noqa: B023
            )
            if self.points.fired != fired:
                return

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        end = self.world.scheduler.now_ns + round(seconds * 1e9)
        self.until(lambda: self.world.scheduler.now_ns >= end, "time passes", seconds=2 * seconds)

    # Clients.

    def ask(self, call: Coroutine[Any, Any, object]) -> None:
        """Let a client do something beside."""
        self._client.create_task(call)

    async def _send_forever(self) -> None:
        """Send one message after the other to the masters; remember which were acknowledged."""
        async with asyncio.TaskGroup() as group:
            pool = Pool(group)
            while True:
                await asyncio.sleep(SEND_S)
                for broker_set in self.sets:
                    master = self.master(broker_set) if self._sending else None
                    if master is not None:
                        await self._send(pool, master, broker_set)

    async def _send(self, pool: Pool, master: str, broker_set: str) -> bool:
        """Send one message; whether it was acknowledged."""
        self._sent += 1
        body = f"message {self._sent}".encode()
        header = SendRequest(
            topic=TOPIC, producer_group="p", default_topic="TBW102", default_topic_queue_nums=1,
            queue_id=0, sys_flag=0, born_timestamp=1, flag=0,
        )  # fmt: skip
        frame = Frame(code=RequestCode.SEND_MESSAGE, ext=to_ext(header), body=body)
        try:
            address = f"{self.address(master)}:{self.nodes[master].port}"
            answer = await pool.call(address, frame, timeout_s=1.0)
        except (OSError, TimeoutError):
            return False
        if answer.code == ResponseCode.SUCCESS:
            self.acked.append(body)
            self.taken[broker_set] += 1
            self._taker[body] = broker_set
        return answer.code == ResponseCode.SUCCESS

    async def designate(self, broker: str) -> None:
        """An operator orders another master."""
        identity = self.identity(broker)
        header = ElectMasterRequest(cluster_name="maxq", broker_name=BROKER_SET,
                                    broker_id=identity, designate_elect=True)  # fmt: skip
        frame = Frame(code=RequestCode.CONTROLLER_ELECT_MASTER, ext=to_ext(header))
        async with asyncio.TaskGroup() as group:
            pool = Pool(group)
            await pool.call(f"{self.address(self.leader() or '')}:9878", frame, timeout_s=3.0)
            pool.close()

    def address(self, name: str) -> str:
        """The address of a node's machine."""
        return self.world.machines[self.nodes[name].process].address

    def identity(self, broker: str) -> int | None:
        """The id in a broker's identity file; None without a whole one."""
        path = f"/{broker}/store/brokerIdentity"
        content = self.world.machines[broker].disk.files.get(path)
        try:
            return None if content is None else decode_identity(bytes(content)).broker_id
        except RemoteProtocolError:
            return None

    def ids_given(self) -> list[int]:
        """The ids that the controllers have given out."""
        leader = self.controllers()[self.leader() or ""]
        known = leader._registry.sets.get(BROKER_SET)
        return sorted(known.replicas if known else ())

    def has_snapshot(self, controller: str) -> bool:
        """Whether a controller has a snapshot on its disk."""
        path = f"/{controller}/store/raft/snapshot"
        return path in self.world.machines[controller].disk.files

    def roles(self, broker: str) -> list[object]:
        """The roles that a broker has had."""
        log = self.world.machines[broker].log
        return [fields["role"] for _, trace, fields in log if trace == "broker.role"]

    def logged(self, name: str, trace: str) -> int:
        """How often a node has logged something."""
        return sum(entry[1] == trace for entry in self.world.machines[self.process(name)].log)

    # Whole or not.

    def in_sync(self, count: int) -> bool:
        """Whether so many are in the SyncStateSet of a master that takes messages."""
        return len(self.members()) == count

    def become_whole(self) -> None:
        """Wait until every broker set takes messages, and all replicas have them.

        Raises:
            NotWhole: it does not, or a node has failed.
            HeldBack: a broker stays out, as it must.
        """
        count = self.set_size
        self.until(lambda: self._sound() and self.in_sync(count), "every replica is in sync")
        before = self.taken.copy()
        self.until(lambda: all(self.taken[s] > before[s] for s in self.sets) and
                   self.in_sync(count), "a message is taken")  # fmt: skip
        self._sending = False
        self.until(self._level, "every replica has everything")

    def _level(self) -> bool:
        sound = self._sound() and self.is_led() and self.in_sync(self.set_size)
        return sound and all(map(self._is_level, self.sets))

    def _is_level(self, broker_set: str) -> bool:
        """Whether all logs of a set are as long as what its master has confirmed."""
        stores = self.stores(broker_set)
        master = self.master(broker_set)
        ends = {store.end for store in stores.values()}
        return master is not None and ends == {stores[master].confirm_offset}

    def stores(self, broker_set: str) -> dict[str, Store]:
        """The stores of the live brokers of a set."""
        return {name: broker._store for name, broker in self.brokers().items()
                if self.nodes[name].broker_set == broker_set}  # fmt: skip

    def _sound(self) -> bool:
        """Whether every node lives.

        Raises:
            NotWhole: one has failed by itself.
            Refuses: it is the victim, at its start, and names a file.
        """
        for name, process in self.processes.items():
            error = process.task.exception() if process.task.done() else None
            for failure in [*process.loop.failures, *([error] if error else [])]:
                if name == self._restarted and isinstance(_inner(failure), REFUSALS):
                    raise Refuses(describe(failure))
                raise NotWhole(f"{name} failed: {describe(failure)}")
        return len(self.processes) == len({node.process for node in self.nodes.values()})

    def id_fault(self) -> str:
        """What is wrong with the brokers' ids; empty if nothing is."""
        ids = sorted(self.identity(name) or 0 for name in self.of(Role.BROKER))
        given = self.ids_given()
        lost = len(given) - len(ids)
        if len(set(ids)) < len(ids) or not set(ids) <= set(given) or lost > self.replaced_count:
            return f"brokers have the ids {ids}, controllers gave {given}"
        return ""

    def missing(self) -> list[bytes]:
        """Acknowledged messages that no master has, without those that are old and lie before all
        that their set has."""
        masters = {s: self.stores(s)[self.master(s) or ""] for s in self.sets}
        there = set[bytes]().union(*map(bodies, masters.values()))
        old = {*self.acked[: self._acked_old]}
        lacking = list[bytes]()
        for broker_set in self.sets:
            own = [b for b in self.acked if self._taker.get(b, self.sets[0]) == broker_set]
            first = next((at for at, body in enumerate(own) if body in there), len(own))
            gone = sum(body in old for body in own[:first])
            lacking += [body for body in own[gone:] if body not in there]
        return lacking


def bodies(store: Store, queue_id: int = 0) -> set[bytes]:
    """The messages of a queue that can be read."""
    units = store.units(TOPIC, queue_id, QueueOffset(0))
    return {decode(store.record(unit))[0].body for _, unit in units}


def _inner(error: BaseException) -> BaseException:
    """The error itself, out of its task group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
