"""Observers: they ask controllers, brokers and name servers what they hold, and change nothing.

They run beside every workload, from an address of their own, so that a fault which cuts clients
off does not blind them. At the end, when everything is healed and still, they ask everybody once
more, and read each replica's log from its disk. Operations: `maxq.histories.observed`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from maxq.harness.client.disk_use import disk_view
from maxq.harness.client.observer import Observer
from maxq.harness.client.probes import until
from maxq.harness.client.stored_logs import STORE, StoredLog, ValueOf, read_log, replica_logs
from maxq.harness.contracts.cluster import Cluster, Levelled, Stored, Workload
from maxq.harness.contracts.environment import Role
from maxq.harness.contracts.error_classes import error_words
from maxq.harness.contracts.generator import PENDING, Context, Generator, Step
from maxq.harness.contracts.outcome import Client, Fail, Ok, Outcome
from maxq.harness.generators import any_of, concat, delay, limit, once, synchronize
from maxq.histories.observed import (
    AWAIT_LEVEL,
    OBSERVE_CONTROLLER,
    OBSERVE_DISK,
    OBSERVE_REPLICA,
    OBSERVE_ROUTE,
    REPLICA_LOG,
    ControllerView,
    ReplicaLog,
    ReplicaView,
    RouteView,
    Share,
    encoded,
)
from maxq.histories.op import Op, Process
from maxq.reference.records import RemoteProtocolError
from maxq.reference.wire.codes import ResponseCode, response_name

THREADS = 4  # one that waits for a node which does not answer holds up no other
ASKED_MAX = 8  # times that a question is put at the end
AGAIN_NS = 500_000_000  # later
NOT_LEADER = response_name(ResponseCode.CONTROLLER_NOT_LEADER)  # that is an answer as well
GAP_NS = 120_000_000  # between questions: each of seven nodes is asked about once a second
SOON_NS = 200_000_000  # between questions to a broker that was away: a master is isolated for 0.4 s
BACK_TIMES = 10  # answers of such a one until it is asked in turn again
QUESTIONS = {
    Role.CONTROLLER: OBSERVE_CONTROLLER,
    Role.BROKER: OBSERVE_REPLICA,
    Role.NAMESRV: OBSERVE_ROUTE,
}
AGAIN_SHORTER = 4
PAIR_EPOCH = 1  # without controllers all of a log is one epoch
Condition = Callable[[], Awaitable[bool]]
Key = tuple[str, str, int]  # topic, broker set, queue id


class Rounds(msgspec.Struct, frozen=True):
    """Questions in turn, for ever; each to the next free observer."""

    questions: tuple[tuple[str, str], ...]  # f, node
    at: int = 0

    def op(self, ctx: Context) -> Step | None:
        process = ctx.some_free_process()
        if process is None:
            return PENDING, self
        f, node = self.questions[self.at % len(self.questions)]
        op = Op("invoke", process, f, {"node": node}, time=ctx.time)
        return op, Rounds(self.questions, self.at + 1)

    def update(self, ctx: Context, event: Op) -> Generator:
        return self


class Known(msgspec.Struct, frozen=True):
    """What is known of a broker. `left`: after how many answers it is one as any other; 0: it is.
    `open`: questions to it that are under way."""

    node: str
    due_ns: int = 0
    left: int = 0
    open: int = 0

    def after(self, event: Op) -> "Known":
        if event.type == "invoke":
            return msgspec.structs.replace(self, open=self.open + 1)
        left = max(0, self.left - 1) if event.type == "ok" else BACK_TIMES
        return Known(self.node, event.time + SOON_NS, left, max(0, self.open - 1))


class Absent(msgspec.Struct, frozen=True):
    """Questions to brokers that do not answer, and to those that do again, beside those in turn:
    what a master says of itself at its return it says for less than a round. One at a time to
    each, so a silent one occupies one observer."""

    known: tuple[Known, ...] = ()

    def op(self, ctx: Context) -> Step | None:
        process = ctx.some_free_process()
        asked = (k for k in self.known if k.left and not k.open)
        first = min(asked, key=lambda k: k.due_ns, default=None)
        if process is None or first is None:
            return PENDING, self
        time = max(ctx.time, first.due_ns)
        return Op("invoke", process, OBSERVE_REPLICA, {"node": first.node}, time=time), self

    def update(self, ctx: Context, event: Op) -> Generator:
        if event.f != OBSERVE_REPLICA:
            return self
        node = event.value["node"]
        known = next((k for k in self.known if k.node == node), Known(node))
        return Absent((*(k for k in self.known if k.node != node), known.after(event)))


class Answered(msgspec.Struct, frozen=True):
    """Questions, each until it is answered, `ASKED_MAX` times at the most: what a verdict rests on
    must not be missing for want of one packet. `tried` counts how often each was put; `asking` is
    who puts which."""

    left: tuple[tuple[str, str], ...]  # f, node
    tried: tuple[int, ...] = ()
    asking: tuple[tuple[Process, int], ...] = ()  # process, position in `left` and `tried`
    next_ns: tuple[int, ...] = ()

    def op(self, ctx: Context) -> Step | None:
        tried = self.tried or (0,) * len(self.left)
        next_ns = self.next_ns or (0,) * len(self.left)
        busy = {at for _, at in self.asking}
        due = [at for at, n in enumerate(tried) if n < ASKED_MAX and at not in busy]
        if not due:
            return (PENDING, self) if busy else None
        process = ctx.some_free_process()
        if process is None:
            return PENDING, self
        at = min(due, key=lambda at: (next_ns[at], at))
        f, node = self.left[at]
        time = max(ctx.time, next_ns[at])
        op = Op("invoke", process, f, {"node": node}, time=time)
        tried = (*tried[:at], tried[at] + 1, *tried[at + 1 :])
        asking = (*self.asking, (process, at))
        return op, Answered(self.left, tried, asking, next_ns)

    def update(self, ctx: Context, event: Op) -> Generator:
        at = next((at for process, at in self.asking if process == event.process), None)
        if at is None or event.type == "invoke":
            return self
        asking = tuple(a for a in self.asking if a[1] != at)
        over = event.type == "ok" or NOT_LEADER in (event.error or ())
        tried = ASKED_MAX if over else self.tried[at]
        return Answered(
            self.left,
            (*self.tried[:at], tried, *self.tried[at + 1 :]),
            asking,
            (*self.next_ns[:at], event.time + AGAIN_NS, *self.next_ns[at + 1 :]),
        )


class Logs(msgspec.Struct, frozen=True):
    """Every replica's log, one epoch an operation, until the client says that there is no more."""

    nodes: tuple[str, ...]
    epoch: int = 0  # how many epochs of the first node are read
    busy: bool = False

    def op(self, ctx: Context) -> Step | None:
        if not self.nodes:
            return None
        process = ctx.some_free_process()
        if process is None or self.busy:
            return PENDING, self
        value = {"node": self.nodes[0], "at": self.epoch}
        op = Op("invoke", process, REPLICA_LOG, value, time=ctx.time)
        return op, Logs(self.nodes, self.epoch, busy=True)

    def update(self, ctx: Context, event: Op) -> Generator:
        if event.f != REPLICA_LOG or event.type == "invoke":
            return self
        if event.type == "ok" and (event.ext or {}).get("more"):
            return Logs(self.nodes, self.epoch + 1)
        return Logs(self.nodes[1:])


class Patience:
    """How long replicas are waited for: what did not become level in time once is not waited for as
    long again.

    Args:
        level_s: the first time.
    """

    def __init__(self, level_s: float) -> None:
        self._level_s = level_s

    async def __call__(self, condition: Condition) -> bool:
        """Wait for a condition; whether it came true."""
        level = await until(condition, self._level_s)
        if not level:
            self._level_s /= AGAIN_SHORTER
        return level


class Eyes:
    """One observer, as a client."""

    def __init__(
        self,
        cluster: Cluster,
        observer: Observer,
        logs: dict[str, list[ReplicaLog]],
        keys: Sequence[Key],
        topics: Sequence[str],
        decode: Callable[[int, bytes], Any],
        level: "Patience",
        shares: Mapping[str, Share],
    ) -> None:
        self._shares = shares
        self._topics = topics
        self._level = level
        self._cluster = cluster
        self._observer = observer
        self._logs = logs  # of the nodes read so far, shared by all observers
        self._keys = keys
        self._decode = decode
        self._sets = sorted({n.broker_set for n in cluster.nodes if n.broker_set})
        self._set_of = {n.name: n.broker_set for n in cluster.nodes}
        self._first = frozenset(n.name for n in cluster.nodes if not n.replica)

    async def open(self) -> None:
        """Connections are made when first needed."""

    async def invoke(self, op: Op) -> Outcome:
        if op.f == AWAIT_LEVEL:
            return Ok({"level": await self._level(self._cluster.offers(Levelled).level)})
        node = op.value["node"]
        address = self._cluster.address(node)
        answer: ControllerView | ReplicaView | RouteView | Fail
        match op.f:
            case "observe-controller":
                leads_at = self._cluster.address(node, Role.CONTROLLER)
                answer = await self._observer.controller(node, leads_at, self._sets)
            case "observe-replica":
                answer = await self._replica(node, address)
            case "observe-route":
                answer = await self._observer.route(node, address, self._topics)
            case "observe-disk":
                return await self._disk(node)
            case "replica-log":
                return await self._log(node, op.value["at"])
            case _:
                return Fail(["no-such-operation", op.f])
        return answer if isinstance(answer, Fail) else Ok(encoded(answer))

    async def _replica(self, node: str, address: str) -> ReplicaView | Fail:
        broker_set = self._set_of[node]
        if not self._cluster.controllers():
            first = node in self._first
            return await self._observer.member(node, broker_set, address, first=first)
        broker_id = await self._cluster.offers(Stored).identity(node)
        return await self._observer.replica(node, broker_set, address, broker_id)

    async def _disk(self, node: str) -> Outcome:
        stores = self._cluster.offers(Stored)
        try:
            sizes, partition = await stores.sizes(node), await stores.partition(node)
        except OSError as error:
            return Fail(error_words(error))
        seen = disk_view(node, self._set_of[node], sizes, partition, self._shares[node])
        return Ok(encoded(seen))

    async def _log(self, node: str, at: int) -> Outcome:
        if at == 0:
            try:
                log = read_log(await self._cluster.offers(Stored).stored(node, STORE))
            except (OSError, RemoteProtocolError) as error:
                return Fail(error_words(error))
            self._logs[node] = await self._epochs(node, log)
        epochs = self._logs[node]
        if at >= len(epochs):
            return Fail("no-log")
        return Ok(encoded(epochs[at]), ext={"more": at + 1 < len(epochs)})

    async def _epochs(self, node: str, log: StoredLog) -> list[ReplicaLog]:
        broker_set = self._set_of[node]
        if not self._cluster.controllers():
            log = msgspec.structs.replace(log, epochs=((PAIR_EPOCH, 0),))
        return list(
            replica_logs(
                log,
                node=node,
                broker_set=broker_set,
                broker_id=await self._cluster.offers(Stored).identity(node),
                value_of=ValueOf(self._keys, broker_set, self._decode),
            )
        )

    async def close(self) -> None:
        self._observer.close()


def observe_workload(
    cluster: Cluster,
    group: asyncio.TaskGroup,
    *,
    keys: Sequence[Key],
    topics: Sequence[str],
    decode: Callable[[int, bytes], Any],
    level_s: float,
    shares: Mapping[str, Share],
    stores: bool = True,
) -> Workload:
    """Make the observers.

    Args:
        cluster: what they observe.
        group: the run's tasks.
        keys: the queues whose messages are reported of each replica's log; a key is an index.
        topics: of whose permissions name servers are asked.
        decode: the value of a message's body of a key.
        level_s: how long replicas may take, after everything else, to have the same.
        shares: the brokers whose use of their partition is observed, and what each may take.
        stores: whether logs are waited for and read at the end.
    """
    asked = tuple((QUESTIONS[r], n.name) for n in cluster.nodes if not n.spare for r in n.roles)
    # That a broker lives must be known before a controller is asked why it is in no set.
    replicas = tuple(q for q in asked if q[0] == OBSERVE_REPLICA)
    others = tuple(q for q in asked if q[0] != OBSERVE_REPLICA)
    controllers = tuple(q for q in asked if q[0] == OBSERVE_CONTROLLER)
    brokers = tuple(n.name for n in cluster.by_role(Role.BROKER) if not n.spare)
    logs: dict[str, list[ReplicaLog]] = {}
    level = Patience(level_s)

    def client(thread: int) -> Client:
        observer = Observer(cluster.observer_dial, group)
        return Eyes(cluster, observer, logs, keys, topics, decode, level, shares)

    disks = tuple((OBSERVE_DISK, name) for name in sorted(shares))
    in_turn = delay(GAP_NS, Rounds((*asked, *disks)))
    return Workload(
        name="observe",
        threads=THREADS,
        generator=in_turn if controllers else any_of(in_turn, Absent()),
        final_generator=concat(
            *([once({"f": AWAIT_LEVEL, "value": None})] if stores else ()),
            *(synchronize(Answered(part)) for part in (replicas, others)),
            *([synchronize(Logs(brokers))] if stores else ()),
            *([synchronize(Answered(disks))] if disks else ()),  # what is gone of these logs
        ),
        client=client,
        topics={},
        look=concat(
            *(synchronize(limit(len(part), Rounds(part))) for part in (replicas, controllers))
        ),
    )
