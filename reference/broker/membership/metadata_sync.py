"""A slave's copy of its master's tables: what to ask, when, and what to take.

The log replicates messages; topics, groups and offsets are pulled: in RocketMQ every 3 s, but no
sooner than 10 s after the last time, so in effect every 12 s; here also, and at once where the
master is another. A broker with an empty store asks each time until it has them, and copies no log
before: it might be elected without. A table is taken when its data version differs from the own
one; consumer offsets when they differ themselves, since their version does not move with every
commit. Each table is asked for and taken apart: one that fails leaves the others alone, and comes
the next time.

A slave whose log begins above 0 does not know how many messages of a queue went with the files that
its master has deleted, unless the log has one of the queue. It asks for the ends of the others, and
copies no log before either.

Nothing is taken that was asked of a master who is none any more (`following`): the answer of a
dead master must not overwrite what its successor, maybe this broker, has made since.
Source: RocketMQ ``SlaveSynchronize``.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from maxq.reference.broker.store.store import Store
from maxq.reference.broker.store.topics import Tables
from maxq.reference.host import Host
from maxq.reference.names import MARK_TOPIC
from maxq.reference.node import now_ns
from maxq.reference.records import QueueOffset, RemoteProtocolError
from maxq.reference.rpc import Pool, split_address
from maxq.reference.wire import headers
from maxq.reference.wire.bodies import (
    ConsumerOffsets,
    DelayOffsets,
    MessageRequestModes,
    SubscriptionGroups,
)
from maxq.reference.wire.body import Body
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import from_ext, to_ext
from maxq.reference.wire.route import DataVersion, TopicConfigSerializeWrapper

TICK_S = 3.0
THROTTLE_NS = 10_000_000_000
CALL_TIMEOUT_S = 3.0
FAST_PORT = -2  # from the main one; where Java serves topics to slaves

B = TypeVar("B", bound=Body)


@dataclass(slots=True)
class Throttle:
    """When to pull again. Times are ns of this node's monotonic clock."""

    master: str = ""
    pulled_ns: int = 0

    def is_due(self, now_ns: int, master: str) -> bool:
        """Whether to pull now; call every `TICK_S`. The answer counts as done."""
        if not master or (master == self.master and now_ns - self.pulled_ns <= THROTTLE_NS):
            return False
        self.master, self.pulled_ns = master, now_ns
        return True


def differs(mine: DataVersion, theirs: DataVersion) -> bool:
    """Whether a table is another one, newer or older: the master is right."""
    return mine != theirs


def fast_address(address: str) -> str:
    """Where a broker serves its topics to slaves."""
    host, port = split_address(address)
    return f"{host}:{port + FAST_PORT}"


async def sync_once(
    pool: Pool,
    master_address: str,
    tables: Tables,
    host: Host,
    *,
    following: Callable[[], bool] = lambda: True,
    progress: Callable[[], bool] = lambda: True,
) -> bool:
    """Pull all tables from a master and take what differs.

    Args:
        pool: connections.
        master_address: its main port.
        tables: the slave's.
        host: for the log.
        following: whether that broker is still the master of this slave.
        progress: whether its offsets and delay progress are not older than this slave's own.

    Returns:
        Whether every table was answered (and taken, if it differs).
    """

    async def topics() -> None:
        fast = fast_address(master_address)
        got = await ask(pool, fast, RequestCode.GET_ALL_TOPIC_CONFIG, TopicConfigSerializeWrapper)
        if following() and (not tables.known or differs(tables.version, got.data_version)):
            await tables.adopt_topics(got, following)

    async def offsets() -> None:
        code = RequestCode.GET_ALL_CONSUMER_OFFSET
        got = await ask(pool, master_address, code, ConsumerOffsets)
        if following() and progress() and tables.offsets != got.offset_table:
            tables.adopt_offsets(got)

    async def delay() -> None:
        got = await ask(pool, master_address, RequestCode.GET_ALL_DELAY_OFFSET, DelayOffsets)
        if following() and progress() and got != tables.delay:
            await tables.adopt_delay(got, lambda: following() and progress())

    async def groups() -> None:
        code = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
        got = await ask(pool, master_address, code, SubscriptionGroups)
        if following() and differs(tables.group_version, got.data_version):
            await tables.adopt_groups(got, following)

    async def modes() -> None:
        code = RequestCode.GET_ALL_MESSAGE_REQUEST_MODE
        got = await ask(pool, master_address, code, MessageRequestModes)
        if following() and got != tables.modes:
            await tables.adopt_modes(got, following)

    done = [
        await _tried(host, master_address, name, pull())
        for name, pull in (
            ("topics", topics), ("offsets", offsets), ("delay", delay), ("groups", groups),
            ("modes", modes),
        )
    ]  # fmt: skip
    return all(done)


async def ask(pool: Pool, address: str, code: RequestCode, kind: type[B]) -> B:
    """Ask a broker for one of its tables.

    Raises:
        NotSent, ConnectionLost, TimeoutError: no answer.
        RemoteProtocolError: it refuses, or answers otherwise.
    """
    answer = await pool.call(address, Frame(code=code), timeout_s=CALL_TIMEOUT_S)
    if answer.code != ResponseCode.SUCCESS:
        raise RemoteProtocolError(f"code {answer.code}: {answer.remark}")
    return kind.from_json(answer.body)


async def _tried(host: Host, master: str, table: str, work: Awaitable[None]) -> bool:
    try:
        await work
    except (OSError, TimeoutError, RemoteProtocolError, ValueError) as error:
        why = f"{type(error).__name__}: {error}"
        host.log("broker.metadata.failed", of=master, table=table, why=why)
        return False
    return True


async def ends_once(
    pool: Pool, master_address: str, tables: Tables, store: Store, *, following: Callable[[], bool]
) -> None:
    """Ask a master where each queue ends of which this log has no message, and take it.

    Raises:
        OSError, RemoteProtocolError: the master does not answer, or not so, or the disk failed;
            nothing is taken.
    """
    queues = {name: max(t.read_queue_nums, t.write_queue_nums) for name, t in tables.topics.items()}
    ends: dict[tuple[str, int], QueueOffset] = {}
    for name, count in {MARK_TOPIC: 1, **queues}.items():  # ours is in no table
        for queue_id in range(count):
            if store.is_empty(name, queue_id):
                ends[name, queue_id] = await _end(pool, master_address, name, queue_id)
    if following():
        await store.adopt_ends(ends)


async def _end(pool: Pool, address: str, topic: str, queue_id: int) -> QueueOffset:
    asked = headers.MaxOffsetRequest(topic=topic, queue_id=queue_id)
    request = Frame(code=RequestCode.GET_MAX_OFFSET, ext=to_ext(asked))
    answer = await pool.call(address, request, timeout_s=CALL_TIMEOUT_S)
    if answer.code != ResponseCode.SUCCESS:
        raise RemoteProtocolError(f"code {answer.code}: {answer.remark}")
    return QueueOffset(from_ext(headers.OffsetResponse, answer.ext).offset)


class MetadataSync:
    """The pull of one slave, to be called every `TICK_S` and where the master is another.

    Args:
        pool: connections.
        tables: the slave's.
        store: the slave's.
        host: for the log.
        master: address of the master that this broker follows now; empty if it follows none.
        known: called when tables, or ends of queues, have come that were not known.
        progress: whether the master's offsets are not older than this slave's own.
    """

    def __init__(
        self,
        pool: Pool,
        tables: Tables,
        store: Store,
        host: Host,
        master: Callable[[], str],
        known: Callable[[], Awaitable[None]],
        progress: Callable[[], bool] = lambda: True,
    ) -> None:
        self._pool = pool
        self._tables = tables
        self._store = store
        self._host = host
        self._master = master
        self._known = known
        self._progress = progress
        self._throttle = Throttle()
        self._turn = asyncio.Lock()

    async def tick(self) -> None:
        """Pull, if it is time; one pull at a time."""
        async with self._turn:
            master = self._master()
            if master and not (self._progress() or not self._knows()):
                return  # it has nothing that is missing here
            if self._throttle.is_due(now_ns(), master) or (master and not self._knows()):
                await self._pull(master)

    async def _pull(self, master: str) -> None:
        pool, tables, store, had = self._pool, self._tables, self._store, self._tables.known

        def following() -> bool:
            return self._master() == master

        def progress() -> bool:
            return not had or self._progress()

        await sync_once(pool, master, tables, self._host, following=following, progress=progress)
        asks = tables.known and not store.ends_known  # the log may have begun meanwhile
        if asks:
            ends = ends_once(pool, master, tables, store, following=following)
            await _tried(self._host, master, "ends", ends)
        if self._knows() and (asks or not had):
            await self._known()

    def _knows(self) -> bool:
        return self._tables.known and self._store.ends_known
