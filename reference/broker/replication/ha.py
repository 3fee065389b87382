"""Replication on the wire: the shells of `ha_master` and `ha_slave`.

`HaServer` listens on the HA port, `HaClient` dials the master's. Each feeds its core from one
inbox, in one task, so a failed invariant ends the node. The client carries out the effects of a
step completely before it takes the next event: appends, cuts and saved epoch lists are ordered by
that. The server never waits. `maxq.reference.broker.replication.replication` changes between the
two.

Bounds: the inbox of a connection holds `BUFFER_BYTES_MAX` of a master or `PACKETS_MAX` packets of
a slave, then reading stops; what is written to a slave is bounded by the core's window. Times are
ns of the node's monotonic clock. Source: docs/spec/controller-ha.md 4.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import assert_never

from maxq.reference.broker.replication import epochs as policy
from maxq.reference.broker.replication import ha_master_events as master
from maxq.reference.broker.replication import ha_slave_events as slave
from maxq.reference.broker.replication.epochs import Epochs
from maxq.reference.broker.replication.ha_link import (
    HaPort,
    Inbox,
    Link,
    LogAccess,
    Queued,
    SentAway,
    Tickets,
)
from maxq.reference.broker.replication.ha_master import HaMaster
from maxq.reference.broker.replication.ha_progress import SlaveProgress
from maxq.reference.broker.replication.ha_slave import HaSlave
from maxq.reference.broker.replication.sync_state_set import ProposeSyncStateSet
from maxq.reference.node import now_ns
from maxq.reference.records import MasterEpoch, PhyOffset, RemoteProtocolError, invariant
from maxq.reference.wire import ha as wire

BUFFER_BYTES_MAX = 8 << 20
PACKETS_MAX = 1024

# (HA address, the master's end): up to where this log has the same records, and its last one's end.
# Raises OSError, TimeoutError or RemoteProtocolError if the master does not say.
StartOf = Callable[[str], Awaitable[PhyOffset]]
Compare = Callable[[str, PhyOffset], Awaitable[tuple[PhyOffset, PhyOffset]]]
Propose = Callable[[ProposeSyncStateSet], Awaitable[master.Known | master.Answered]]
Log = Callable[..., None]  # (trace, **fields), as `Host.log`


class HaServer:
    """The HA port. `propose` asks the controller; `confirmed` is called with how far readers may
    go."""

    def __init__(
        self,
        core: HaMaster,
        access: LogAccess,
        *,
        durable: bool,
        propose: Propose,
        confirmed: Callable[[PhyOffset], None],
        log: Log,
    ) -> None:
        self._core = core
        self._access = access
        self._durable = durable
        self._propose = propose
        self._confirmed = confirmed
        self._log = log
        self._inbox: Inbox[master.Event] = Inbox()
        self._links: dict[int, Link] = {}
        self._link_count = 0
        self._queued = Queued(self._links, PACKETS_MAX)
        self._written = False
        self._tickets = Tickets()

    async def run(self, group: asyncio.TaskGroup, port: HaPort) -> None:
        """Serve at a port that is bound, until cancelled."""
        port.serve(self._accept)
        try:
            while True:
                deadline = self._core.next_deadline_ns()
                if not self._written:
                    await self._inbox.wait(deadline)
                if self._written:
                    self._written = False
                    self._step(group, self._as_written())
                for event in self._inbox.taken():
                    self._take(group, event)
                if deadline is not None and now_ns() >= deadline:
                    self._step(group, master.Timeout())
        finally:
            port.serve(SentAway)
            for link in self._links.values():
                link.close()

    # From the broker.

    async def lead(self, lead: master.Lead) -> None:
        """Begin a term."""
        await self._inbox.done(lead)

    async def resign(self) -> None:
        """End the term: every connection closes, every waiting send is given up."""
        await self._inbox.done(master.Resign())

    async def trimmed(self, start: PhyOffset, epochs: Epochs) -> None:
        """The log is about to begin at `start`: when this returns, nothing before it is read."""
        await self._inbox.done(master.Trimmed(start=start, epochs=epochs))

    def written(self) -> None:
        """The log has grown, or what is synced of it has."""
        self._written = True
        self._inbox.ring()

    def known(self, known: master.Known) -> None:
        """The controller's SyncStateSet, from a poll or a notification."""
        self._inbox.post(known)

    def when_acknowledged(
        self, end: PhyOffset, master_epoch: MasterEpoch, then: Callable[[str], None]
    ) -> None:
        """Call `then` once the replicas have the log up to `end`, with an empty string; or, when
        that is given up, with the reason."""
        ticket = self._tickets.take(then)
        self._inbox.post(master.Await(ticket=ticket, master_epoch=master_epoch, end=end))

    def slaves(self) -> list[tuple[str, SlaveProgress]]:
        """Every slave that has said who it is, by its end of the connection."""
        return [
            (self._links[number].peer, link)
            for number, link in sorted(self._core.links.items())
            if link.slave is not None and number in self._links
        ]

    # From the loop.

    def _accept(self) -> Link:
        self._link_count += 1
        number = self._link_count
        link = Link(
            wire.slave_decoder(),
            made=lambda: self._inbox.post(
                master.Accepted(link=number, host=link.peer.rpartition(":")[0])
            ),
            received=lambda packet: self._on_packet(number, packet),
            lost=lambda why: self._on_lost(number, link),
        )
        self._links[number] = link
        return link

    def _on_packet(self, number: int, packet: wire.SlavePacket) -> None:
        self._queued.add(number)
        self._inbox.post(master.Received(link=number, packet=packet))

    def _on_lost(self, number: int, link: Link) -> None:
        if link.nonsense:
            self._log("ha.slave.nonsense", peer=link.peer, why=link.nonsense)
        self._links.pop(number, None)
        self._inbox.post(master.Lost(link=number))

    def _take(self, group: asyncio.TaskGroup, event: master.Event) -> None:
        if self._written and isinstance(event, master.Received | master.Await | master.Lead):
            # What the event speaks of may be in the log since the last look at it.
            self._written = False
            self._step(group, self._as_written())
        self._step(group, event)
        if isinstance(event, master.Received):
            self._queued.remove(event.link)

    def _as_written(self) -> master.Written:
        access = self._access
        if self._durable:
            return master.Written(end=access.end, counted=access.durable)
        return master.Written(end=access.end, counted=access.end, alone=access.pooled_end)

    def _step(self, group: asyncio.TaskGroup, event: master.Event) -> None:
        if isinstance(event, master.Written) and not self._core.leading:
            return
        for effect in self._core.step(now_ns(), event):
            match effect:
                case master.SendLog():
                    self._send_log(effect)
                case master.Reply():
                    self._send(effect.link, effect.packet)
                case master.Acknowledge():
                    self._tickets.answer(effect.ticket)
                case master.GiveUp():
                    self._tickets.answer(effect.ticket, effect.why)
                case master.Confirm():
                    self._confirmed(effect.offset)
                case master.Close():
                    link = self._links.pop(effect.link, None)
                    if link is not None:
                        link.close()
                case ProposeSyncStateSet():
                    group.create_task(self._ask(effect))
                case master.Trace():
                    self._log(effect.name, why=effect.why)
                case _:
                    assert_never(effect)

    def _send_log(self, piece: master.SendLog) -> None:
        data = self._access.read_range(piece.start, piece.size) if piece.size else b""
        invariant(len(data) == piece.size, "a piece lies within one file", piece=piece)
        transfer = wire.Transfer(
            start=piece.start,
            epoch=piece.epoch,
            epoch_start=piece.epoch_start,
            confirm_offset=piece.confirm_offset,
            data=data,
        )
        self._send(piece.link, transfer)

    def _send(self, number: int, packet: wire.MasterPacket) -> None:
        link = self._links.get(number)
        if link is not None:
            link.send(wire.encode(packet))

    async def _ask(self, proposal: ProposeSyncStateSet) -> None:
        self._inbox.post(await self._propose(proposal))


class HaClient:
    """The slave's side. It alone writes to log and epoch file while a master is followed."""

    def __init__(
        self,
        core: HaSlave,
        access: LogAccess,
        *,
        compare: Compare,
        start_of: StartOf,
        save: Callable[[Epochs], Awaitable[None]],
        saved: Callable[[], Epochs],
        confirmed: Callable[[PhyOffset], None],
        log: Log,
    ) -> None:
        self._core = core
        self._access = access
        self._compare_with = compare
        self._start_of = start_of
        self._save, self._saved = save, saved
        self._confirmed = confirmed
        self._log = log
        self._inbox: Inbox[slave.Event] = Inbox()
        self._links: dict[int, Link] = {}
        self._buffered = 0  # bytes of packets in the inbox

    async def run(self, group: asyncio.TaskGroup) -> None:
        """Follow whom `follow` names, until cancelled."""
        try:
            while True:
                deadline = self._core.next_deadline_ns()
                await self._inbox.wait(deadline)
                for event in self._inbox.taken():
                    await self._take(group, event)
                deadline = self._core.next_deadline_ns()
                if deadline is not None and now_ns() >= deadline:
                    await self._step(group, slave.Timeout())
        finally:
            for link in self._links.values():
                link.close()

    async def follow(self, follow: slave.Follow) -> None:
        """Follow a master, or another one."""
        await self._inbox.done(follow)

    async def stop(self) -> None:
        """Follow no master; when this returns, log and epoch file change no more."""
        await self._inbox.done(slave.Stop())

    async def trim(self, start: PhyOffset) -> None:
        """Let the log begin at `start`, if it is still confirmed up to there."""
        await self._inbox.done(slave.Trimmed(start=start))

    async def _take(self, group: asyncio.TaskGroup, event: slave.Event) -> None:
        await self._step(group, event)
        if isinstance(event, slave.Received):
            before, self._buffered = self._buffered, self._buffered - _size(event.packet)
            if before >= BUFFER_BYTES_MAX > self._buffered:
                for link in self._links.values():
                    link.hold(reading=True)

    def _on_packet(self, connection: int, packet: wire.MasterPacket) -> None:
        before, self._buffered = self._buffered, self._buffered + _size(packet)
        if before < BUFFER_BYTES_MAX <= self._buffered and connection in self._links:
            self._links[connection].hold(reading=False)
        self._inbox.post(slave.Received(connection=connection, packet=packet))

    async def _step(self, group: asyncio.TaskGroup, event: slave.Event) -> None:
        for effect in self._core.step(now_ns(), event):
            match effect:
                case slave.Dial():
                    group.create_task(self._dial(effect))
                case slave.Hangup():
                    link = self._links.pop(effect.connection, None)
                    if link is not None:
                        link.close()
                case slave.Send():
                    self._send(effect)
                case slave.Compare():
                    group.create_task(self._compare(effect))
                case slave.Ask():
                    group.create_task(self._ask_start(effect))
                case slave.Truncate():
                    await self._truncate(group, effect)
                case slave.Trim():
                    await self._trim(effect)
                case slave.Append():
                    if not await self._append(group, effect):
                        return
                case slave.Sync():
                    group.create_task(self._sync(effect))
                case slave.Confirm():
                    self._confirmed(effect.offset)
                case slave.Trace():
                    self._log(effect.name, why=effect.why)
                case _:
                    assert_never(effect)

    def _send(self, effect: slave.Send) -> None:
        link = self._links.get(effect.connection)
        if link is not None:
            link.send(wire.encode(effect.packet))

    async def _compare(self, effect: slave.Compare) -> None:
        number = effect.connection
        try:
            equal, whole = await self._compare_with(effect.address, effect.their_end)
        except (OSError, TimeoutError, RemoteProtocolError) as error:
            why = f"{type(error).__name__}: {error}"
            self._inbox.post(slave.Uncompared(connection=number, why=why))
        else:
            self._inbox.post(slave.Compared(connection=number, equal=equal, whole=whole))

    async def _ask_start(self, effect: slave.Ask) -> None:
        start: PhyOffset | None = None
        try:
            start = await self._start_of(effect.address)
        except (OSError, TimeoutError, RemoteProtocolError) as error:
            self._log("ha.start.unknown", why=f"{type(error).__name__}: {error}")
        self._inbox.post(slave.Asked(connection=effect.connection, at=effect.at, start=start))

    async def _truncate(self, group: asyncio.TaskGroup, effect: slave.Truncate) -> None:
        if effect.end < self._access.end:
            await self._access.truncate(effect.end)
        await self._save_if_new(effect.epochs)
        await self._step(group, effect.done)

    async def _trim(self, effect: slave.Trim) -> None:
        try:
            await self._access.trim(effect.start)
        except OSError as error:  # a full disk; files that are left go the next time
            self._log("ha.trim.failed", why=str(error))
        await self._save_if_new(effect.epochs)

    async def _append(self, group: asyncio.TaskGroup, effect: slave.Append) -> bool:
        try:
            append = self._access.checked(effect.start, effect.data) if effect.data else None
            if effect.epochs is not None:
                await self._save_if_new(effect.epochs)
            if append is not None:
                await self._sync_begun(effect.start)
                whole = self._access.whole_end()
                append()
                await self._vouch(whole)
        except RemoteProtocolError as error:
            await self._drop_begun()
            return await self._append_failed(group, str(error))
        except OSError as error:
            return await self._append_failed(group, str(error))
        for send in effect.then:
            self._send(send)
        return True

    async def _sync_begun(self, end: PhyOffset) -> None:
        """Sync the beginning of a record that the log ends with, in a durable broker.

        The crc of a record covers its body alone. While only one piece of it is not synced, a loss
        of power leaves a beginning of it, which recovery sees; with two it may leave a hole in its
        head or in its properties.
        """
        if self._core.durable and self._access.whole_end() < end:
            await self._access.sync()

    async def _drop_begun(self) -> None:
        """Cut the beginning of a record off whose rest turned out to be none: the next master may
        have another one there."""
        await self._cut(self._access.whole_end())

    async def _vouch(self, whole: PhyOffset) -> None:
        """Before anything is acknowledged. Raises OSError; what was appended is cut off then."""
        try:
            await self._access.vouch()
        except OSError:
            await self._cut(whole)
            raise

    async def _cut(self, whole: PhyOffset) -> None:
        if whole < self._access.end:
            await self._access.truncate(whole)
            await self._save_if_new(policy.reconcile(self._saved(), whole))

    async def _append_failed(self, group: asyncio.TaskGroup, why: str) -> bool:
        failed = slave.AppendFailed(why=why, end=self._access.end, epochs=self._saved())
        await self._step(group, failed)
        return False

    async def _save_if_new(self, epochs: Epochs) -> None:
        if epochs != self._saved():
            await self._save(epochs)

    async def _sync(self, effect: slave.Sync) -> None:
        await self._access.sync()
        self._inbox.post(effect.done)

    async def _dial(self, effect: slave.Dial) -> None:
        number = effect.connection
        link = Link(
            wire.master_decoder(),
            made=lambda: self._inbox.post(slave.Connected(connection=number)),
            received=lambda packet: self._on_packet(number, packet),
            lost=lambda why: self._inbox.post(
                slave.Lost(connection=number, why=why, nonsense=bool(link.nonsense))
            ),
        )
        self._links[number] = link
        if why := await link.dial(effect.address):
            self._inbox.post(slave.Lost(connection=number, why=why))


def _size(packet: wire.MasterPacket) -> int:
    return 100 + (len(packet.data) if isinstance(packet, wire.Transfer) else 0)
