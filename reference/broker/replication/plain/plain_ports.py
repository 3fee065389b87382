"""Replication without controllers on the wire: the shells of `plain_master` and `plain_slave`.

`PlainServer` listens on the HA port, `PlainClient` dials the master's. Each feeds its core from one
inbox, in one task, so a failed invariant ends the node. The client carries out the effects of a
step completely before it takes the next event, so appends are in order. The server never waits.

Bounds: the inbox of a connection holds `BUFFER_BYTES_MAX` of a master or `REPORTS_MAX` reports of a
slave, then reading stops; what is written to a slave is bounded by the core's window.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import assert_never

from maxq.reference.broker.replication.ha_link import (
    HaPort,
    Inbox,
    Link,
    LogAccess,
    Queued,
    SentAway,
    Tickets,
)
from maxq.reference.broker.replication.plain import plain_events as events
from maxq.reference.broker.replication.plain.plain_master import PlainMaster
from maxq.reference.broker.replication.plain.plain_slave import PlainSlave
from maxq.reference.node import now_ns
from maxq.reference.records import PhyOffset, RemoteProtocolError, invariant
from maxq.reference.rpc import split_address
from maxq.reference.wire import plain_ha as wire

BUFFER_BYTES_MAX = 8 << 20
REPORTS_MAX = 1024

# Where the log of the master that is followed begins and ends. Raises OSError, TimeoutError or
# RemoteProtocolError if it does not say.
AskBounds = Callable[[], Awaitable[tuple[PhyOffset, PhyOffset]]]
Log = Callable[..., None]  # (trace, **fields), as `Host.log`


class PlainServer:
    """The HA port of a master."""

    def __init__(self, core: PlainMaster, access: LogAccess, *, durable: bool, log: Log) -> None:
        self._core = core
        self._access = access
        self._durable = durable
        self._log = log
        self._inbox: Inbox[events.MasterEvent] = Inbox()
        self._links: dict[int, Link] = {}
        self._link_count = 0
        self._queued = Queued(self._links, REPORTS_MAX)
        self._written = False
        self._tickets = Tickets()

    async def run(self, port: HaPort) -> None:
        """Serve at a port that is bound, until cancelled."""
        port.serve(self._accept)
        try:
            while True:
                deadline = self._core.next_deadline_ns()
                if not self._written:
                    await self._inbox.wait(deadline)
                self._look()
                for event in self._inbox.taken():
                    self._take(event)
                if deadline is not None and now_ns() >= deadline:
                    self._step(events.Timeout())
        finally:
            port.serve(SentAway)
            for link in self._links.values():
                link.close()

    def written(self) -> None:
        """The log has grown, or what is synced of it has."""
        self._written = True
        self._inbox.ring()

    def trimmed(self, start: PhyOffset) -> None:
        """The log is about to begin at `start`: when this returns, nothing before it is read. Also
        of a broker that does not serve yet."""
        self._take(events.Trimmed(start=start))

    def when_acknowledged(self, end: PhyOffset, copies: int, then: Callable[[str], None]) -> None:
        """Call `then` once so many logs reach `end`, with an empty string; or, when that is given
        up, with the reason."""
        ticket = self._tickets.take(then)
        self._inbox.post(events.Await(ticket=ticket, end=end, copies=copies))

    def _accept(self) -> Link:
        self._link_count += 1
        number = self._link_count
        link = Link(
            wire.slave_decoder(),
            made=lambda: self._on_made(number, link),
            received=lambda report: self._on_report(number, report),
            lost=lambda why: self._on_lost(number, why),
        )
        self._links[number] = link
        return link

    def _on_made(self, number: int, link: Link) -> None:
        host, port = split_address(link.peer)
        self._inbox.post(events.Accepted(link=number, host=host, port=port))

    def _on_report(self, number: int, report: wire.Report) -> None:
        self._queued.add(number)
        self._inbox.post(events.Reported(link=number, offset=report.offset))

    def _on_lost(self, number: int, why: str) -> None:
        self._links.pop(number, None)
        self._inbox.post(events.Lost(link=number, why=why))

    def _look(self) -> None:
        """Tell the core how long the log is by now."""
        if self._written:
            self._written = False
            end = self._access.end
            counted = self._access.durable if self._durable else end
            self._step(events.Written(end=end, counted=counted))

    def _take(self, event: events.MasterEvent) -> None:
        self._look()  # what the event speaks of may be in the log since the last look at it
        self._step(event)
        if isinstance(event, events.Reported):
            self._queued.remove(event.link)

    def _step(self, event: events.MasterEvent) -> None:
        for effect in self._core.step(now_ns(), event):
            match effect:
                case events.SendPiece():
                    self._send(effect)
                case events.Close():
                    link = self._links.pop(effect.link, None)
                    if link is not None:
                        link.close()
                case events.Acknowledge():
                    self._tickets.answer(effect.ticket)
                case events.GiveUp():
                    self._tickets.answer(effect.ticket, effect.why)
                case events.Trace():
                    self._log(effect.name, why=effect.why)
                case _:
                    assert_never(effect)

    def _send(self, effect: events.SendPiece) -> None:
        data = self._access.read_range(effect.start, effect.size) if effect.size else b""
        invariant(len(data) == effect.size, "a piece lies within one file", piece=effect)
        link = self._links.get(effect.link)
        if link is not None:
            link.send(wire.encode(wire.LogPiece(start=effect.start, data=data)))


class PlainClient:
    """The slave's side. It alone writes to the log while a master is followed.

    Args:
        core: decides.
        access: the log.
        bounds: asks the master.
        appended: called with the end of the log when it has grown: readers go up to there.
        log: `Host.log`.
    """

    def __init__(
        self,
        core: PlainSlave,
        access: LogAccess,
        *,
        bounds: AskBounds,
        appended: Callable[[PhyOffset], None],
        log: Log,
    ) -> None:
        self._core = core
        self._access = access
        self._bounds = bounds
        self._appended = appended
        self._log = log
        self._inbox: Inbox[events.SlaveEvent] = Inbox()
        self._links: dict[int, Link] = {}
        self._buffered = 0  # bytes of pieces in the inbox

    async def run(self, group: asyncio.TaskGroup) -> None:
        """Follow whom `follow` names, until cancelled."""
        try:
            while True:
                await self._inbox.wait(self._core.next_deadline_ns())
                for event in self._inbox.taken():
                    await self._take(group, event)
                deadline = self._core.next_deadline_ns()
                if deadline is not None and now_ns() >= deadline:
                    await self._step(group, events.Timeout())
        finally:
            for link in self._links.values():
                link.close()

    async def follow(self, address: str) -> None:
        """Copy from the HA port at `address`; from nobody, if it is empty: when this returns the
        log then changes no more."""
        await self._inbox.done(events.Follow(address=address, end=self._access.end))

    async def _take(self, group: asyncio.TaskGroup, event: events.SlaveEvent) -> None:
        await self._step(group, event)
        if isinstance(event, events.Received):
            before, self._buffered = self._buffered, self._buffered - _size(event.piece)
            if before >= BUFFER_BYTES_MAX > self._buffered:
                for link in self._links.values():
                    link.hold(reading=True)

    def _on_piece(self, number: int, piece: wire.LogPiece) -> None:
        before, self._buffered = self._buffered, self._buffered + _size(piece)
        if before < BUFFER_BYTES_MAX <= self._buffered and number in self._links:
            self._links[number].hold(reading=False)
        self._inbox.post(events.Received(link=number, piece=piece))

    async def _step(self, group: asyncio.TaskGroup, event: events.SlaveEvent) -> None:
        for effect in self._core.step(now_ns(), event):
            match effect:
                case events.Dial():
                    group.create_task(self._dial(effect))
                case events.Ask():
                    group.create_task(self._ask(effect))
                case events.Hangup():
                    link = self._links.pop(effect.link, None)
                    if link is not None:
                        link.close()
                case events.SendReport():
                    link = self._links.get(effect.link)
                    if link is not None:
                        link.send(wire.encode(wire.Report(offset=effect.offset)))
                case events.Append():
                    if not await self._append(group, effect):
                        return
                case events.Empty():
                    await self._access.truncate(PhyOffset(0))
                case events.Sync():
                    group.create_task(self._sync(effect))
                case events.Trace():
                    self._log(effect.name, why=effect.why)
                case _:
                    assert_never(effect)

    async def _append(self, group: asyncio.TaskGroup, effect: events.Append) -> bool:
        """Append bytes that a recovery would take back, or nothing."""
        whole = self._access.whole_end()
        try:
            append = self._access.checked(effect.start, effect.data)
            if self._core.durable and whole < effect.start:
                await self._access.sync()  # only one piece of a record may be lost with the power
            append()
            await self._access.vouch()
        except (RemoteProtocolError, OSError) as error:
            return await self._failed(group, whole, str(error))
        self._appended(self._access.whole_end())
        return True

    async def _failed(self, group: asyncio.TaskGroup, whole: PhyOffset, why: str) -> bool:
        """Drop the beginning of a record whose rest turned out to be none, or cannot be kept."""
        if whole < self._access.end:
            await self._access.truncate(whole)
        await self._step(group, events.AppendFailed(why=why, end=self._access.end))
        return False

    async def _sync(self, effect: events.Sync) -> None:
        end = await self._access.sync()
        self._inbox.post(events.Synced(link=effect.link, end=end))

    async def _ask(self, effect: events.Ask) -> None:
        try:
            start, end = await self._bounds()
        except (OSError, TimeoutError, RemoteProtocolError) as error:
            why = f"its bounds are not known: {type(error).__name__}: {error}"
            self._inbox.post(events.Lost(link=effect.link, why=why))
        else:
            self._inbox.post(events.Bounds(link=effect.link, start=start, end=end))

    async def _dial(self, effect: events.Dial) -> None:
        number = effect.link
        link = Link(
            wire.master_decoder(),
            made=lambda: self._inbox.post(events.Connected(link=number)),
            received=lambda piece: self._on_piece(number, piece),
            lost=lambda why: self._inbox.post(events.Lost(link=number, why=why)),
        )
        self._links[number] = link
        if why := await link.dial(effect.address):
            self._inbox.post(events.Lost(link=number, why=why))


def _size(piece: wire.LogPiece) -> int:
    return 100 + len(piece.data)
