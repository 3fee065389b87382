"""A slave's copy of its master's tables: what to ask, when, and what to take.

The log replicates messages; topics, groups and offsets are pulled: in RocketMQ every 3 s, but no
sooner than 10 s after the last time, so in effect every 12 s; here likewise, and at once where the
master is another. A broker with an empty store asks each time until it has them, and copies no log
before: it might be elected without. A table is taken when its data version differs from the own
one; consumer offsets when they differ themselves, since their version does not move with every
commit. Each table is asked for and taken apart: one that fails leaves the others alone, and comes
the next time.

Nothing is taken that was asked of a master who is none any more (`following`): the answer of a
dead master must not overwrite what its successor, maybe this broker, has made since.
Source: RocketMQ ``SlaveSynchronize``.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from maxq.reference.broker.store.topics import Tables
from maxq.reference.host import Host
from maxq.reference.node import now_ns
from maxq.reference.records import RemoteProtocolError
from maxq.reference.rpc import Pool, split_address
from maxq.reference.wire.bodies import (
    ConsumerOffsets,
    DelayOffsets,
    MessageRequestModes,
    SubscriptionGroups,
)
from maxq.reference.wire.body import Body
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.frame import Frame
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
) -> bool:
    """Pull all tables from a master and take what differs.

    Args:
        pool: connections.
        master_address: its main port.
        tables: the slave's.
        host: for the log.
        following: whether that broker is still the master of this slave.

    Returns:
        Whether every table was answered (and taken, if it differs).
    """

    async def topics() -> None:
        fast = fast_address(master_address)
        got = await _ask(pool, fast, RequestCode.GET_ALL_TOPIC_CONFIG, TopicConfigSerializeWrapper)
        if following() and (not tables.known or differs(tables.version, got.data_version)):
            await tables.adopt_topics(got, following)

    async def offsets() -> None:
        code = RequestCode.GET_ALL_CONSUMER_OFFSET
        got = await _ask(pool, master_address, code, ConsumerOffsets)
        if following() and tables.offsets != got.offset_table:
            tables.adopt_offsets(got)

    async def delay() -> None:
        got = await _ask(pool, master_address, RequestCode.GET_ALL_DELAY_OFFSET, DelayOffsets)
        if following() and got != tables.delay:
            await tables.adopt_delay(got, following)

    async def groups() -> None:
        code = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
        got = await _ask(pool, master_address, code, SubscriptionGroups)
        if following() and differs(tables.group_version, got.data_version):
            await tables.adopt_groups(got, following)

    async def modes() -> None:
        code = RequestCode.GET_ALL_MESSAGE_REQUEST_MODE
        got = await _ask(pool, master_address, code, MessageRequestModes)
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


async def _ask(pool: Pool, address: str, code: RequestCode, kind: type[B]) -> B:
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


class MetadataSync:
    """The pull of one slave, to be called every `TICK_S` and where the master is another.

    Args:
        pool: connections.
        tables: the slave's.
        host: for the log.
        master: address of the master that this broker follows now; empty if it follows none.
        known: called when the tables of a store that had none have come.
    """

    def __init__(
        self,
        pool: Pool,
        tables: Tables,
        host: Host,
        master: Callable[[], str],
        known: Callable[[], Awaitable[None]],
    ) -> None:
        self._pool = pool
        self._tables = tables
        self._host = host
        self._master = master
        self._known = known
        self._throttle = Throttle()

    async def tick(self) -> None:
        """Pull, if it is time."""
        master, had = self._master(), self._tables.known
        if self._throttle.is_due(now_ns(), master) or (master and not had):
            await sync_once(
                self._pool, master, self._tables, self._host,
                following=lambda: self._master() == master,
            )  # fmt: skip
            if self._tables.known and not had:
                await self._known()
