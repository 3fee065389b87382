"""Workload probe: once everything is healed, is every queue served?

Every run has it, beside its other workloads; it is idle until the last heal. Then one thread for
each queue sends a message and reads it back, until that has worked a few times in a row or the
recovery bound is well over. A refused probe is not given up: it is sent again, with another
number. Operations:

    send    [["send", k, v]]             as those of the workload queue, with "probe": true
    probe   {"key", "value", "offset"}   ok: that message was read at that offset

A message counts as read back if it is there within `READ_S`: a broker shows what it has
acknowledged a moment later. Messages are numbered from `FIRST` on, apart from those of other
workloads. A topic that came into being during the run is looked for first, made if its master does
not know it and no message will make it, and, where others are made master at the end, waited for
until every replica of its set has copied it (`maxq.workloads.late_topics`). Claim: S13.
"""

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from maxq.harness.client.session import POLLERS, QueueName, RouteBook, Session
from maxq.harness.contracts.cluster import Cluster, Workload
from maxq.harness.contracts.generator import PENDING, Context, Generator, Step
from maxq.harness.contracts.outcome import Client, Fail, Ok, Outcome
from maxq.harness.generators import EMPTY, reserve, time_limit
from maxq.histories.observed import (
    CREATE_TOPIC,
    FIND_TOPIC,
    PROBE_READ,
    PROBE_STREAK,
    PROBED,
)
from maxq.histories.op import Op
from maxq.workloads import payload
from maxq.workloads.late_topics import ONE, TopicMaker, Topics, value_of
from maxq.workloads.queue import QUEUES, Writer, queue_keys

FIRST = 1 << 40  # the number of a queue's first probe
RETRY_NS = 250_000_000
READ_S, READ_GAP_S = 2.0, 0.05
COPY_NS = 1_000_000_000  # between two looks whether replicas have copied a topic
MARGIN_NS = 6_000_000_000  # that probes go on beyond the bound


class Late(msgspec.Struct, frozen=True):
    """What is known of a topic that came into being during the run: where it is, whether its first
    message makes it, whether the master knows it (None: not asked yet), and every replica."""

    queue: QueueName
    by_sending: bool
    copied: bool = True  # it is waited for until every replica has
    there: bool | None = None
    everywhere: bool = False

    def wanted(self, *, served: bool) -> str:
        """What is to be asked now that its queue is served, or not; empty: nothing."""
        if self.there is False:
            return "" if self.by_sending else CREATE_TOPIC
        unsure = self.there is None or (served and self.copied and not self.everywhere)
        return FIND_TOPIC if unsure else ""

    def after(self, event: Op) -> "Late":
        """The same after such an operation."""
        if event.type != "ok":
            return self
        if event.f == CREATE_TOPIC:
            return msgspec.structs.replace(self, there=True)
        known = event.value["known"]
        there, everywhere = known[event.value["master"]], all(known.values())
        return msgspec.structs.replace(self, there=there, everywhere=everywhere)


class Probes(msgspec.Struct, frozen=True):
    """The probes of one queue, on one thread. `read` is what shall be read back now: number and
    offset."""

    key: int
    value: int = FIRST
    streak: int = 0
    read: tuple[int, int] | None = None
    next_ns: int = 0
    late: Late | None = None

    def op(self, ctx: Context) -> Step | None:
        served = self.streak >= PROBE_STREAK
        about = "" if self.late is None else self.late.wanted(served=served)
        if served and not about:
            return None
        process = ctx.some_free_process()
        if process is None:
            return PENDING, self
        time = max(ctx.time, self.next_ns)
        if self.late is not None and about:
            asked = value_of(self.key, self.late.queue)
            return Op("invoke", process, about, asked, time=time), self
        if self.read is not None:
            value = {"key": self.key, "value": self.read[0], "offset": self.read[1]}
            return Op("invoke", process, PROBE_READ, value, time=time), self
        sent = [["send", self.key, self.value]]
        op = Op("invoke", process, "send", sent, time=time, ext={PROBED: True})
        return op, self

    def update(self, ctx: Context, event: Op) -> Generator:
        if event.type == "invoke":
            return self
        if self.late is not None and event.f in (FIND_TOPIC, CREATE_TOPIC):
            after = event.time + (COPY_NS if self.streak else 0 if event.type == "ok" else RETRY_NS)
            known = self.late.after(event)
            # A master that does not know the topic was elected since its queue was served.
            streak = 0 if known.there is False else self.streak
            return msgspec.structs.replace(self, late=known, streak=streak, next_ns=after)
        streak, value, late = self.streak, self.value, self.late
        if event.type != "ok":
            after = event.time + RETRY_NS
            if late is not None:  # another master may lead by now, which does not know the topic
                late = msgspec.structs.replace(late, there=None)
            return Probes(self.key, value + (self.read is None), 0, None, after, late)
        if event.f == PROBE_READ:
            return Probes(self.key, value, streak + 1, None, event.time, late)
        [[_, _, [offset, sent]]] = event.value
        if late is not None:  # who took a message has the topic
            late = msgspec.structs.replace(late, there=True)
        return Probes(self.key, value + 1, streak, (sent, offset), event.time, late)


class Prober:
    """Sends, and reads back; with a `maker`, asks for a topic."""

    def __init__(
        self,
        session: Session,
        keys: Sequence[QueueName],
        wall_ms: Callable[[], int],
        maker: TopicMaker | None = None,
    ):
        self._session = session
        self._keys = keys
        self._writer = Writer(session, keys, wall_ms, maker)
        self._maker = maker

    async def open(self) -> None:
        """Connections are made when first needed; the run is in its end by then."""
        self._session.hasten()

    async def invoke(self, op: Op) -> Outcome:
        if op.f in ("send", CREATE_TOPIC):
            return await self._writer.invoke(op)
        if op.f == FIND_TOPIC and self._maker is not None:
            return await self._maker.find(op)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + READ_S
        while True:
            found = await self._read(op.value["key"], op.value["value"], op.value["offset"])
            if isinstance(found, Ok) or loop.time() > deadline:
                return Ok(op.value, ext=found.ext) if isinstance(found, Ok) else found
            await asyncio.sleep(READ_GAP_S)

    async def _read(self, key: int, value: int, offset: int) -> Ok | Fail:
        polled = await self._session.poll(self._keys[key], offset, of_master=True)
        if isinstance(polled, Fail):
            return polled
        held = {at: payload.decode(key, body) for at, body in polled.messages}
        if held.get(offset) == value:
            return Ok(ext={"node": self._keys[key].broker_set, **polled.ext})
        return Fail(["not-read-back", [offset, held.get(offset)]])

    async def close(self) -> None:
        await self._writer.close()


def probe_workload(
    cluster: Cluster,
    routes: RouteBook,
    group: asyncio.TaskGroup,
    *,
    bound_ns: int,
    wall_ms: Callable[[], int],
    topics: Topics = ONE,
    elects: bool = True,
) -> Workload:
    """Make the workload.

    Args:
        cluster: where it runs.
        routes: where its queues live: those of the workload queue, which every run has.
        group: the run's tasks.
        bound_ns: how long a cluster may take until it serves.
        wall_ms: the harness's wall clock, for message time stamps.
        topics: those of the workload queue.
        elects: whether others are made master afterwards.
    """
    topics = topics.probed
    keys = queue_keys(cluster, topics.count, topics.name)
    late = {key for key, queue in enumerate(keys) if queue.topic != topics.name}

    def client(thread: int) -> Client:
        session = Session(routes, cluster.dial, group)
        if thread not in late:
            return Prober(session, keys, wall_ms)
        maker = TopicMaker(cluster, routes, group, keys, topics.attributes)
        return Prober(session, keys, wall_ms, maker)

    def probes_of(key: int, queue: QueueName) -> Probes:
        by_sending = topics.made == "by-sending"
        return Probes(key, late=Late(queue, by_sending, elects) if key in late else None)

    probes = reserve(*((1, probes_of(key, queue)) for key, queue in enumerate(keys)))
    return Workload(
        name="probe",
        threads=len(keys),
        generator=EMPTY,
        final_generator=time_limit(bound_ns + MARGIN_NS, probes),
        client=client,
        topics={topics.name: QUEUES},
        groups=(POLLERS,),
    )
