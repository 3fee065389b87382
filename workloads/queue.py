"""Workload queue: unique messages to every queue, and readers that follow them to the end.

A key is one queue of one topic on one broker set: first those of the topic that every run has, then
of several topics the only queue of each other one. Writers send a message of its own to a random
key; readers own keys, keep their positions over failures and read on (a new process begins again);
at the end, when all faults are healed, every reader begins again at the first offset and reads its
keys to the end that the broker confirms. Operations are those of a log (docs/spec/history-format.md
12.1) with vectors of one:

    send    [["send", k, v]]      ok: [["send", k, [offset, v]]]
    assign  [k …]                 what this reader reads; "seek-to-beginning?" where it does
    poll    [["poll"]]            ok: [["poll", {k: [[offset, v] …]}]]

Topics but the first may come into being during the run (`maxq.workloads.late_topics`): a writer
also makes them, as an operator would, and nobody reads a queue that no route lists yet.

A poll that reached the end of a key has ``"end": {k: max offset}``; the last one of a final read
has ``"drained": true``. Claims: S6, S10, S11.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any, TypeVar

import msgspec

from maxq.harness.client.session import POLLERS, SEND_TIMEOUT_S, QueueName, RouteBook, Session
from maxq.harness.contracts.cluster import Cluster, Retries, Workload
from maxq.harness.contracts.generator import PENDING, Context, Generator, Step
from maxq.harness.contracts.outcome import Client, Fail, Ok, Outcome
from maxq.harness.generators import EMPTY, delay, each_thread, reserve, time_limit
from maxq.histories.observed import CODE, CREATE_TOPIC, FORGOTTEN_TOPIC, NEW_TOPIC, SLAVE
from maxq.histories.op import Op, Process
from maxq.reference.wire.codes import ResponseCode
from maxq.workloads import payload
from maxq.workloads.late_topics import ONE, TOPIC, TopicMaker, Topics

T = TypeVar("T")
QUEUES = 2  # of each broker set
READER_SHARE = 3  # one thread of so many reads
FINAL_POLL_GAP_NS = 20_000_000
DRAIN_TOPIC_NS = 100_000_000  # for its queues, which have little
SEEK = "seek-to-beginning?"
SIZE = "size"  # of a send: bytes of its payload, at least


class Reads(msgspec.Struct, frozen=True):
    """One reader thread: assign its share of the keys, then poll.

    Each new process assigns first, or it would have nothing to poll. `final`: from the first
    offset on, and until its client says that all is read.
    """

    keys: int
    readers: int
    final: bool = False
    assigned: Process | None = None  # who has
    drained: bool = False

    def op(self, ctx: Context) -> Step | None:
        if self.drained:
            return None
        process = ctx.some_free_process()
        if process is None:
            return PENDING, self
        if process == self.assigned:
            return Op("invoke", process, "poll", [["poll"]], time=ctx.time), self
        thread = ctx.roster.positions[process]  # of this workload, which is always the first
        share = list(share_of(thread, self.readers, self.keys))
        ext = {SEEK: True} if self.final else None
        return Op("invoke", process, "assign", share, time=ctx.time, ext=ext), self

    def update(self, ctx: Context, event: Op) -> Generator:
        if event.type != "ok":
            return self
        if event.f == "assign":
            return msgspec.structs.replace(self, assigned=event.process)
        if self.final and (event.ext or {}).get("drained"):
            return msgspec.structs.replace(self, drained=True)
        return self


class Writer:
    """Sends one message an operation; with a `maker`, or makes a topic. Of `late` keys it says when
    it was acknowledged for the first time."""

    def __init__(
        self,
        session: Session,
        keys: Sequence[QueueName],
        wall_ms: Callable[[], int],
        maker: TopicMaker | None = None,
        late: Collection[int] = (),
    ):
        self._session = session
        self._keys = keys
        self._wall_ms = wall_ms
        self._maker = maker
        self._new = set(late)

    async def open(self) -> None:
        """Connections are made when first needed."""

    async def invoke(self, op: Op) -> Outcome:
        if self._maker is not None and op.f == CREATE_TOPIC:
            return await self._maker.create(op)
        [[_, key, value]] = op.value
        process = op.process if isinstance(op.process, int) else -1
        size = (op.ext or {}).get(SIZE, 0)
        body = payload.encode(key, process, value, size=size)
        outcome = await self._session.send(self._keys[key], body, born_ms=self._wall_ms())
        if not isinstance(outcome, Ok):
            return outcome
        ext = outcome.ext
        if key in self._new:
            self._new.discard(key)
            ext = {**(ext or {}), NEW_TOPIC: True}
        return Ok([["send", key, [outcome.value, value]]], ext=ext)

    async def close(self) -> None:
        self._session.close()
        if self._maker is not None:
            self._maker.close()


class Reader:
    """Reads its keys in turn, and remembers how far it is in each."""

    def __init__(
        self, session: Session, keys: Sequence[QueueName], late: Collection[int] = ()
    ) -> None:
        self._session = session
        self._keys = keys
        self._late = late  # keys that may not be there yet
        self._positions: dict[int, int] = {}  # of the keys it reads
        self._turn = 0
        self._final = False
        self._ended: set[int] = set()

    async def open(self) -> None:
        """Connections are made when first needed."""

    async def invoke(self, op: Op) -> Outcome:
        if op.f == "assign":
            return self._assign(op)
        if not self._positions:
            return Fail("nothing-assigned")
        return await self._poll()

    def _assign(self, op: Op) -> Outcome:
        self._final = bool((op.ext or {}).get(SEEK))
        if self._final:
            self._session.pinned = None
            self._session.hold_ms = 0  # what is not there by then does not come
        self._ended = set()
        self._positions = {
            key: 0 if self._final else self._positions.get(key, 0) for key in op.value
        }
        return Ok(op.value)

    async def _poll(self) -> Outcome:
        left = [k for k in self._positions if k not in self._ended] or list(self._positions)
        if not self._final:
            left = [k for k in left if k not in self._late or self._is_there(k)]
        if not left:
            return Fail("no-route")
        key = left[self._turn % len(left)]
        self._turn += 1
        offset = self._positions[key]
        # At the end only a master can say where its log ends.
        found = await self._session.poll(self._keys[key], offset, of_master=self._final)
        of_set: dict[str, Any] = {"node": self._keys[key].broker_set}
        if isinstance(found, Fail):
            ext = of_set | (found.ext or {}) | self._forgotten(key, found)
            return msgspec.structs.replace(found, ext=ext)
        if found.next_offset < offset:
            # A broker whose log ends before what was read; often a master that is none any more.
            # If messages are lost, the last read will show it: to go back now would only read the
            # same again from the real one.
            return Fail(["offset-moved", [offset, found.next_offset]])
        ext = of_set | found.ext
        self._positions[key] = found.next_offset
        if found.next_offset >= found.max_offset and not found.messages and not found.retry:
            ext["end"] = {key: found.max_offset}
            if self._final:
                self._ended.add(key)
        if self._final and len(self._ended) == len(self._positions):
            ext["drained"] = True
        messages = [[at, payload.decode(key, body)] for at, body in found.messages]
        return Ok([["poll", {key: messages}]], ext=ext)

    def _is_there(self, key: int) -> bool:
        """Whether routes list a queue, or listed it when it was read from."""
        return bool(self._positions[key]) or self._session.listed(self._keys[key])

    def _forgotten(self, key: int, refused: Fail) -> dict[str, Any]:
        """That a master has forgotten the topic of a late key, if it has."""
        said = refused.ext or {}
        unknown = said.get(CODE) == ResponseCode.TOPIC_NOT_EXIST and not said.get(SLAVE)
        read = key in self._late and self._positions[key] > 0
        return {FORGOTTEN_TOPIC: key} if unknown and read else {}

    async def close(self) -> None:
        self._session.close()


def queue_keys(cluster: Cluster, topics: int = 1, first: str = TOPIC) -> list[QueueName]:
    """The queues of the workload; a key is an index."""
    sets = sorted({n.broker_set for n in cluster.nodes if n.broker_set and not n.spare})
    others = [QueueName(topic, s, 0) for topic in [*topics_of(topics, first)][1:] for s in sets]
    return [QueueName(first, s, q) for s in sets for q in range(QUEUES)] + others


def homes_of(sets: Sequence[T], topics: int) -> list[T]:
    """The broker set of each key, of sets in the order of their names."""
    return [s for s in sets for _ in range(QUEUES)] + [*sets] * (topics - 1)


def instead_of(keys: Sequence[QueueName]) -> dict[int, int]:
    """Of each key that is not of the first topic the one that is sent to while its own topic is not
    there: the first of the same broker set."""
    homes = [queue.broker_set for queue in keys]
    return {n: homes.index(q.broker_set) for n, q in enumerate(keys) if q.topic != keys[0].topic}


def topics_of(count: int, first: str = TOPIC) -> dict[str, int]:
    """So many topics, by the name of the first one, each with its number of queues of each broker
    set."""
    return {first: QUEUES} | {f"{first}-{number}": 1 for number in range(1, count)}


def reader_count(concurrency: int, keys: int) -> int:
    """How many of so many threads read, the first ones."""
    return min(max(1, concurrency // READER_SHARE), keys)


def share_of(thread: int, readers: int, keys: int) -> tuple[int, ...]:
    """The keys that a reader reads."""
    return tuple(range(thread, keys, readers))


def pinned_threads(concurrency: int, readers: int, count: int) -> frozenset[int]:
    """So many threads: the last that writes, the last that reads, the last but one that writes.
    A replica that no client should have asked is judged by its answers as by what it takes."""
    write, read = range(readers, concurrency)[::-1], range(readers)[::-1]
    in_turn = [t for pair in zip_longest(write, read) for t in pair if t is not None]
    return frozenset(in_turn[:count])


def _replica(cluster: Cluster, number: int, broker_set: str) -> str:
    """Where a replica of a set is now."""
    names = [n.name for n in cluster.nodes if n.broker_set == broker_set]
    return cluster.address(names[number % len(names)])


def queue_workload(
    cluster: Cluster,
    routes: RouteBook,
    group: asyncio.TaskGroup,
    *,
    concurrency: int,
    drain_ns_max: int,
    wall_ms: Callable[[], int],
    topics: Topics = ONE,
    pinned: int = 0,
    retries: int = 0,
    avoids: bool = False,
    send_timeout_s: float = SEND_TIMEOUT_S,
    hold_ms: int = 0,
) -> Workload:
    """Make the workload.

    Args:
        cluster, routes, group: where it runs, where its queues live, the run's tasks.
        concurrency: client threads; a third of them, but at least one, read.
        drain_ns_max: of the final read, without `DRAIN_TOPIC_NS` for each later topic.
        wall_ms: the harness's wall clock, for message time stamps.
        topics: that there are, and when they are made.
        pinned: so many threads (`pinned_threads`) stay with one broker, another one each.
        retries: how often writers try another broker set, or another queue where there is one set.
        avoids: whether they keep away from sets that failed or were slow.
        send_timeout_s: how long a send waits for its answer.
        hold_ms: how long a broker may hold a poll that finds nothing, until something comes.
    """
    keys = queue_keys(cluster, topics.count, topics.name)
    readers = reader_count(concurrency, len(keys))
    drain_ns_max += (topics.count - 1) * DRAIN_TOPIC_NS
    stay = pinned_threads(concurrency, readers, pinned)
    names, there = (topics_of(n, topics.name) for n in (topics.count, topics.there))
    late = {key: home for key, home in instead_of(keys).items() if keys[key].topic not in there}

    def client(thread: int) -> Client:
        pin = partial(_replica, cluster, thread) if thread in stay else None
        session = Session(routes, cluster.dial, group, pinned=pin)
        session.hold_ms, session.send_timeout_s = hold_ms, send_timeout_s
        if thread < readers:
            return Reader(session, keys, late)
        made = topics.made == "during"
        maker = TopicMaker(cluster, routes, group, keys, topics.attributes) if made else None
        return Writer(session, keys, wall_ms, maker, late)

    drain = each_thread(delay(FINAL_POLL_GAP_NS, Reads(len(keys), readers, final=True)))
    return Workload(
        name="queue",
        threads=concurrency,
        generator=EMPTY,  # what is sent and read says the schedule of a run
        final_generator=time_limit(drain_ns_max, reserve((readers, drain))),
        client=client,
        topics=there,
        late={topic: count for topic, count in names.items() if topic not in there},
        instead=late if topics.made == "during" else {},
        groups=(POLLERS,),
        shares=tuple(share_of(thread, readers, len(keys)) for thread in range(readers)),
        retries=retries_of([k.broker_set for k in keys], retries, avoids=avoids),
    )


def retries_of(homes: Sequence[str], count: int, *, avoids: bool) -> Retries | None:
    """How writers try again, in queues of these broker sets; the next try goes to the next queue of
    another set, if there is one."""
    if not count and not avoids:
        return None
    keys = range(len(homes))
    elsewhere = tuple(
        next((at for n in keys if homes[at := (key + n + 1) % len(keys)] != homes[key]),
             (key + 1) % len(keys))
        for key in keys
    )  # fmt: skip
    sets = sorted(set(homes))
    return Retries(count=count, elsewhere=elsewhere, homes=tuple(map(sets.index, homes)),
                   avoids=avoids)  # fmt: skip
