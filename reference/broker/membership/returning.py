"""Carries out what `maxq.reference.broker.membership.pre_online` decides: asks, takes, merges.

Of a member's tables, per key the larger offset is kept, and delay progress within its queue; both
are on the disk before the member counts. A member without a timer wheel answers 60 with an error,
and one with a wheel has nothing that is kept here: its answer is looked at, and stops nobody
(RocketMQ's master never comes online then). Units: ns of the monotonic clock, seconds for calls.
Source: RocketMQ ``BrokerPreOnlineService``; docs/spec/acting-master.md 5.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar, assert_never

from maxq.reference.broker.membership import comparison, pre_online
from maxq.reference.broker.membership.metadata_sync import CALL_TIMEOUT_S, ask, fast_address
from maxq.reference.broker.membership.namesrvs import Namesrvs
from maxq.reference.broker.membership.pre_online import Member, PreOnline
from maxq.reference.broker.replication.plain.plain_replication import PlainReplication
from maxq.reference.broker.store.store import Store
from maxq.reference.broker.store.topics import Tables
from maxq.reference.host import Host
from maxq.reference.names import SCHEDULE_TOPIC
from maxq.reference.node import now_ns
from maxq.reference.records import PhyOffset, RemoteProtocolError
from maxq.reference.rpc import Pool
from maxq.reference.wire.bodies import ConsumerOffsets, DelayOffsets
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.files import decode_timer_checkpoint
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import to_ext
from maxq.reference.wire.node_headers import HaInfo

TICK_S = 0.2
R = TypeVar("R")


class Returning:
    """The way of one master into its group.

    Args:
        state: what is decided; it is stepped here alone.
        host: for the log.
        pool: connections.
        namesrvs: who lists the group.
        tables: this master's.
        store: its messages.
        plain: who copies them.
        me: where this master is, as it announces itself.
        online: called when it is to be shown.
    """

    def __init__(
        self,
        state: PreOnline,
        host: Host,
        pool: Pool,
        namesrvs: Namesrvs,
        tables: Tables,
        store: Store,
        plain: PlainReplication,
        me: Callable[[], HaInfo],
        online: Callable[[], Awaitable[None]],
    ) -> None:
        self.state = state
        self._host = host
        self._pool = pool
        self._namesrvs = namesrvs
        self._tables = tables
        self._store = store
        self._plain = plain
        self._me = me
        self._online = online
        self._todo: list[pre_online.Effect] = []
        self._ran_ns = now_ns()  # when this process was seen to run last

    def begin(self) -> None:
        """Isolate this master; the next `tick` goes on."""
        self._step(pre_online.Begin(at_ns=now_ns()))

    async def look(self) -> None:
        """See that this process runs; call every `TICK_S`, also while a `tick` waits."""
        self._look()

    def _look(self) -> None:
        before, self._ran_ns = self._ran_ns, now_ns()
        if self._ran_ns - before >= pre_online.FRESH_NS:
            self._todo += self.state.step(pre_online.Stalled(at_ns=self._ran_ns))

    async def tick(self) -> None:
        """Go on; call every `TICK_S`."""
        if not self.state.isolated:
            return
        links = self._plain.master.links.values()
        hosts = frozenset(link.host for link in links if link.acked is not None)
        tick = pre_online.Tick(at_ns=now_ns(), hosts=hosts, end=self._store.end)
        self._step(tick)
        while self._todo:
            event = await self._done(self._todo.pop(0))
            if event is not None:
                self._step(event)

    def _step(self, event: pre_online.Event) -> None:
        """Whoever runs first after a pause notices it, before what was asked earlier counts."""
        self._look()
        self._todo += self.state.step(event)

    async def _done(self, effect: pre_online.Effect) -> pre_online.Event | None:
        match effect:
            case pre_online.AskGroup():
                return await self._ask_group()
            case pre_online.Announce():
                end = await self._tried(effect.member, self._announce(effect.member.address))
                return pre_online.Answered(at_ns=now_ns(), member=effect.member, end=end)
            case pre_online.Take():
                done = await self._tried(effect.member, self._take(effect.member))
                return pre_online.Took(at_ns=now_ns(), member=effect.member, done=bool(done))
            case pre_online.Online():
                await self._online()
            case pre_online.Trace():
                self._host.log(effect.name, why=effect.why)
            case _:
                assert_never(effect)
        return None

    async def _ask_group(self) -> pre_online.Grouped:
        groups = await self._namesrvs.groups()
        listed = {Member(id=i, address=a) for group in groups for i, a in group.items()}
        by_id = sorted(listed, key=lambda m: (m.id, m.address))
        return pre_online.Grouped(at_ns=now_ns(), members=tuple(by_id) if groups else None)

    async def _tried(self, member: Member, work: Awaitable[R]) -> R | None:
        """What a member says; None if it does not, or the disk failed."""
        try:
            return await work
        except (OSError, TimeoutError, RemoteProtocolError, ValueError) as error:
            why = f"{type(error).__name__}: {error}"
            self._host.log("broker.preonline.failed", of=member.address, why=why)
            return None

    async def _announce(self, address: str) -> PhyOffset:
        announced = Frame(code=RequestCode.EXCHANGE_BROKER_HA_INFO, ext=to_ext(self._me()))
        answer = await self._pool.call(address, announced, timeout_s=CALL_TIMEOUT_S)
        if answer.code != ResponseCode.SUCCESS:
            raise RemoteProtocolError(f"906: code {answer.code}: {answer.remark}")
        return (await comparison.bounds_of(self._pool, address))[1]

    async def _take(self, member: Member) -> bool:
        """Merge a member's tables into this master's, and write them."""
        pool, tables, address = self._pool, self._tables, member.address
        delay = await ask(pool, address, RequestCode.GET_ALL_DELAY_OFFSET, DelayOffsets)
        offsets = await ask(pool, address, RequestCode.GET_ALL_CONSUMER_OFFSET, ConsumerOffsets)
        await self._look_at_timers(member)
        tables.merge_offsets(merged(tables.offsets, offsets.offset_table), offsets.data_version)
        levels = {*tables.delay.offset_table, *delay.offset_table}
        ends = {n: self._store.written(SCHEDULE_TOPIC, n - 1) for n in levels if n > 0}
        both = pre_online.larger(tables.delay.offset_table, delay.offset_table)
        tables.merge_delay(pre_online.clamped(both, ends))
        await tables.save_offsets()
        await tables.save_delay()
        return True

    async def _look_at_timers(self, member: Member) -> None:
        request = Frame(code=RequestCode.GET_TIMER_CHECK_POINT)
        try:
            answer = await self._pool.call(
                fast_address(member.address), request, timeout_s=CALL_TIMEOUT_S
            )
            if answer.code != ResponseCode.SUCCESS:
                raise RemoteProtocolError(f"60: code {answer.code}: {answer.remark}")
            decode_timer_checkpoint(answer.body or b"")
        except (OSError, TimeoutError, RemoteProtocolError) as error:
            self._host.log("broker.preonline.timers", of=member.address, why=str(error))


def merged(
    mine: dict[str, dict[int, int]], theirs: dict[str, dict[int, int]]
) -> dict[str, dict[int, int]]:
    """Of two tables of consumer offsets the larger of each group and queue."""
    return {
        key: pre_online.larger(mine.get(key, {}), theirs.get(key, {}))
        for key in sorted({**mine, **theirs})
    }
