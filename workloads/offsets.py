"""Workload offsets: consumer groups that commit further and further, and fetch what they have.

A key is a consumer group of one process, on one queue: a process commits one offset after the other
to its master, each one further, and a process with an unknown outcome (`info`) leaves its
key to no other, so that no late commit can undo a later one. Any process of a thread asks for the
offset of any key of the thread. After an operation that was not `ok` a thread asks, until that is
answered, for the last key that it committed to: another broker may lead by then, and what that one
knows is to be seen before anybody commits to it. So the first commit that would go to another
broker than the last answer of its key came from is not sent, and fails. Operations
(`maxq.histories.observed`):

    commit-offset   [key, offset]   ok: the master has taken note
    fetch-offset    key             ok: [key, offset], 0 for none

Brokers copy offsets from their master every few seconds, not with the log. At the end each client
commits once more; then nothing happens for longer than that takes, another replica is made master,
and each asks for its offset. A pair has no such election: there the clients ask once the faults are
healed and masters take messages again. Claims: O1, and of pairs P4 to P6.
"""

import asyncio

import msgspec

from maxq.harness.client.consumer_offsets import OffsetSession
from maxq.harness.client.session import QueueName, RouteBook
from maxq.harness.contracts.cluster import Cluster, Workload
from maxq.harness.contracts.environment import Role
from maxq.harness.contracts.generator import PENDING, Context, Generator, Step
from maxq.harness.contracts.outcome import Client, Fail, Ok, Outcome
from maxq.harness.generators import each_thread, reserve, time_limit
from maxq.histories.observed import BROKER, COMMIT_OFFSET, FETCH_OFFSET, FINAL
from maxq.histories.op import Op

TOPIC = "maxq-offsets"
QUEUES = 2  # of each broker set
GAP_NS = 400_000_000
LAST_OFFSET = 1_000_000  # beyond all that a run commits before
LAST_NS = 20_000_000_000  # that a last commit, or question, may take
FETCHES = 0.5  # of the operations of a process that has committed


class Commits(msgspec.Struct, frozen=True):
    """One thread: its keys so far, and how far the last one has committed; `asks`: its last
    operation was not ok, and it asks before it commits again."""

    keys: tuple[int, ...] = ()
    offset: int = 0
    asks: bool = False

    def op(self, ctx: Context) -> Step | None:
        process = ctx.some_free_process()
        if process is None:
            return PENDING, self
        time = ctx.time
        if self.asks:
            return Op("invoke", process, FETCH_OFFSET, self.keys[-1], time=time), self
        if process not in self.keys:
            after = msgspec.structs.replace(self, keys=(*self.keys, int(process)), offset=1)
            return Op("invoke", process, COMMIT_OFFSET, [process, 1], time=time), after
        if ctx.rng.random() < FETCHES:
            key = self.keys[ctx.rng.randrange(len(self.keys))]
            return Op("invoke", process, FETCH_OFFSET, key, time=time), self
        offset = self.offset + 1
        after = msgspec.structs.replace(self, offset=offset)
        return Op("invoke", process, COMMIT_OFFSET, [process, offset], time=time), after

    def update(self, ctx: Context, event: Op) -> Generator:
        asks = bool(self.keys) and event.type != "ok"
        if event.type == "invoke" or asks == self.asks:
            return self
        return msgspec.structs.replace(self, asks=asks)


class Last(msgspec.Struct, frozen=True):
    """One thread at the end: its present process commits a last offset, or asks for it, until that
    has succeeded. `key` is the process that began to ask; -1: none yet."""

    thread: int
    asks: bool
    key: int = -1
    done: bool = False
    next_ns: int = 0

    def op(self, ctx: Context) -> Step | None:
        if self.done:
            return None
        process = ctx.some_free_process()
        if process is None:
            return PENDING, self
        time = max(ctx.time, self.next_ns)
        if not self.asks:
            return Op("invoke", process, COMMIT_OFFSET, [process, LAST_OFFSET], time=time), self
        key = int(process) if self.key < 0 else self.key
        op = Op("invoke", process, FETCH_OFFSET, key, time=time, ext={FINAL: self.thread})
        return op, msgspec.structs.replace(self, key=key)

    def update(self, ctx: Context, event: Op) -> Generator:
        if event.type == "invoke":
            return self
        done, next_ns = event.type == "ok", event.time + GAP_NS
        return msgspec.structs.replace(self, done=done, next_ns=next_ns)


class OffsetClient:
    """Commits and asks. All keys of a thread are of one broker set, so that each set has some of
    every moment, however many processes the threads have come to."""

    def __init__(self, session: OffsetSession, broker_set: str) -> None:
        self._session = session
        self._set = broker_set
        self._answered: dict[int, str] = {}  # by key, which broker did last

    async def open(self) -> None:
        """Connections are made when first needed."""

    async def invoke(self, op: Op) -> Outcome:
        key = op.value if op.f == FETCH_OFFSET else op.value[0]
        queue = QueueName(TOPIC, self._set, key % QUEUES)
        name = f"maxq-{key}"
        if op.f == FETCH_OFFSET:
            done = await self._session.fetch(queue, name)
            value = [key, done.value] if isinstance(done, Ok) else None
        else:
            before, now = self._answered.get(key), self._session.asked(queue)
            if before is not None and now is not None and now.broker != before:
                del self._answered[key]  # whoever does not ask commits next time
                return Fail("broker-changed")
            done, value = await self._session.commit(queue, name, op.value[1]), op.value
        if not isinstance(done, Ok):
            return done
        self._answered[key] = str((done.ext or {})[BROKER])
        return Ok(value, ext=done.ext)

    async def close(self) -> None:
        self._session.close()


def offsets_workload(
    cluster: Cluster, routes: RouteBook, group: asyncio.TaskGroup, *, clients: int
) -> Workload:
    """Make the workload.

    Args:
        cluster: where it runs.
        routes: where its queues live.
        group: the run's tasks.
        clients: threads.
    """
    sets = sorted({n.broker_set for n in cluster.by_role(Role.BROKER) if not n.spare})

    def client(thread: int) -> Client:
        return OffsetClient(OffsetSession(routes, cluster.dial, group), sets[thread % len(sets)])

    return Workload(
        name="offsets",
        threads=clients,
        generator=each_thread(Commits()),
        final_generator=_last(clients, asks=True),
        settling=_last(clients, asks=False),
        client=client,
        topics={TOPIC: QUEUES},
        needs=("offsets",),
    )


def _last(clients: int, *, asks: bool) -> Generator:
    return time_limit(LAST_NS, reserve(*((1, Last(n, asks)) for n in range(clients))))
