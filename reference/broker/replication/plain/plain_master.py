"""The master of a pair without controllers: sends its log to slaves, and counts who has it.

The protocol names nobody and cannot refuse, so all that can be known of a slave is what it reports.
A report that cannot be true, behind the start of the log or beyond what the slave was sent, ends
its connection and counts nowhere; RocketMQ takes it for an acknowledgement, and then promises
copies that are not there. Slaves are told apart by the host that they speak from: two connections
from one host are one copy, as one is left over from before the other.

Only what counts is sent: of a broker that syncs before it answers (SYNC_FLUSH), what is on its
disk. A master that lost power would else be shorter than its slaves, which then stay out
permanently.

A slave that says 0 has nothing, and is sent the last file, as in RocketMQ: what begins there is the
start of its log.

A link is in sync if it has reported in this connection, and lacks less than `gap_max`. A send of a
SYNC_MASTER waits for `copies_needed`; what is not copied in time stays in the log, and can be read:
FLUSH_SLAVE_TIMEOUT.

Offsets are bytes of the commit log, ends exclusive; times are ns of this node's monotonic clock.
Claims: S6, S9. Source: RocketMQ ``DefaultHAService``, ``DefaultHAConnection``,
``GroupTransferService``, ``CommitLog.calcNeedAckNums``; captures of 5.5.0.
"""

from dataclasses import dataclass, field
from typing import assert_never

from maxq.reference.broker.replication.plain.plain_events import (
    Accepted,
    Acknowledge,
    Await,
    Close,
    GiveUp,
    Lost,
    MasterEffect,
    MasterEvent,
    PlainSettings,
    Reported,
    SendPiece,
    Timeout,
    Trace,
    Trimmed,
    Written,
)
from maxq.reference.broker.replication.waiting import Waiting
from maxq.reference.records import PhyOffset, invariant

LINKS_MAX = 64
REFUSED_MAX = 8  # hosts


@dataclass(slots=True)
class PlainLink:
    """One slave's connection."""

    number: int
    host: str
    port: int
    heard_ns: int
    wrote_ns: int
    acked: PhyOffset | None = None  # until the first report
    first: PhyOffset = PhyOffset(0)  # first byte that was to be sent
    next: PhyOffset = PhyOffset(0)  # first byte that was not sent

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(slots=True)
class PlainMaster:
    """The master side of one broker. The log is `start` to `end`, and counts up to `counted`."""

    settings: PlainSettings
    start: PhyOffset
    end: PhyOffset
    counted: PhyOffset
    links: dict[int, PlainLink] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)  # host -> what it reported, and why not
    _waiting: list[tuple[int, Waiting]] = field(default_factory=list)  # by the copies wanted

    # Questions.

    @property
    def in_sync_count(self) -> int:
        """Logs that are in sync, this one counted."""
        near = {k.host for k in self.links.values() if self.is_in_sync(k)}
        return 1 + len(near)

    def is_in_sync(self, link: PlainLink) -> bool:
        """Whether a slave has said that it lacks little."""
        return link.acked is not None and self.end - link.acked < self.settings.gap_max

    def copies_needed(self, in_sync: int) -> int:
        """How many logs a send must reach, this one counted, with so many in sync; a broker with
        fewer takes none."""
        s = self.settings
        if not s.sync_master:
            return 1
        if not s.auto:
            return s.in_sync_replicas
        return max(min(s.in_sync_replicas, in_sync), s.min_in_sync_replicas)

    @property
    def copied(self) -> PhyOffset:
        """What lies before this no connected slave still copies."""
        return min([self.end, *(k.acked for k in self.links.values() if k.acked is not None)])

    def next_deadline_ns(self) -> int | None:
        """When `Timeout` is due."""
        s, due = self.settings, list[int | None]()
        for link in self.links.values():
            due.append(link.heard_ns + s.housekeeping_ns)
            if link.acked is not None:
                due.append(link.wrote_ns + s.heartbeat_ns)
        due += [waiting.next_deadline_ns() for _, waiting in self._waiting]
        return min((at for at in due if at is not None), default=None)

    def step(self, now_ns: int, event: MasterEvent) -> list[MasterEffect]:
        """Take one event; return what to do, in this order."""
        match event:
            case Written():
                return self._on_written(now_ns, event)
            case Accepted():
                return self._on_accepted(now_ns, event)
            case Reported():
                return self._on_reported(now_ns, event)
            case Lost():
                self.links.pop(event.link, None)
                return []
            case Await():
                self._queue_of(event.copies).add(now_ns, event.ticket, event.end)
                return self._advance()
            case Trimmed():
                return self._on_trimmed(event)
            case Timeout():
                return self._on_timeout(now_ns)
            case _:
                assert_never(event)

    # The log.

    def _on_written(self, now_ns: int, event: Written) -> list[MasterEffect]:
        invariant(event.end >= self.end, "a master's log only grows", event=event, end=self.end)
        invariant(self.counted <= event.counted <= event.end, "what counts is there", event=event)
        self.end, self.counted = event.end, event.counted
        effects = [e for link in self.links.values() for e in self._pump(now_ns, link)]
        return effects + self._advance()

    def _on_trimmed(self, event: Trimmed) -> list[MasterEffect]:
        self.start = max(self.start, event.start)
        behind = [k for k in self.links.values() if k.acked is not None and k.next < self.start]
        return [e for link in behind for e in self._close(link, "the log is trimmed")]

    def _pump(self, now_ns: int, link: PlainLink) -> list[MasterEffect]:
        effects: list[MasterEffect] = []
        while size := self._sendable(link):
            effects.append(self._send(now_ns, link, size))
        return effects

    def _sendable(self, link: PlainLink) -> int:
        """Bytes that the next piece may carry: of one file and batch, and within the window of what
        is not reported; 0 before the first report."""
        if link.acked is None:
            return 0
        s, at = self.settings, link.next
        stop = min(
            self.counted,
            at - at % s.file_size + s.file_size,
            at + s.batch_bytes,
            max(link.acked, link.first) + s.window_bytes,
        )
        return max(stop - at, 0)

    def _send(self, now_ns: int, link: PlainLink, size: int) -> SendPiece:
        piece = SendPiece(link=link.number, start=link.next, size=size)
        link.next, link.wrote_ns = PhyOffset(link.next + size), now_ns
        return piece

    # Slaves.

    def _on_accepted(self, now_ns: int, event: Accepted) -> list[MasterEffect]:
        if len(self.links) >= LINKS_MAX:
            return [Close(link=event.link), Trace(name="ha.slave.refused", why="no room")]
        self.links[event.link] = PlainLink(
            number=event.link, host=event.host, port=event.port, heard_ns=now_ns, wrote_ns=now_ns
        )
        return []

    def _on_reported(self, now_ns: int, event: Reported) -> list[MasterEffect]:
        link = self.links.get(event.link)
        if link is None:
            return [Trace(name="ha.report.ignored", why="connection closed")]
        link.heard_ns = now_ns
        fault = self._fault(link, event.offset)
        if fault:
            return self._refuse(link, event.offset, fault)
        if link.acked is None:
            self._begin(link, event.offset)
            effects = self._pump(now_ns, link) or [self._send(now_ns, link, 0)]
        else:
            link.acked = event.offset
            effects = self._pump(now_ns, link)
        return effects + self._advance()

    def _fault(self, link: PlainLink, offset: PhyOffset) -> str:
        """Why a report cannot be true; empty if it may be."""
        if link.acked is None:
            if offset and not self.start <= offset <= self.end:
                where = "before the start" if offset < self.start else "beyond the end"
                return f"{where} of the log, {self.start} to {self.end}"
            return ""
        if offset > link.next:
            return f"beyond what it was sent, up to {link.next}"
        return f"after {link.acked}" if offset < link.acked else ""

    def _begin(self, link: PlainLink, offset: PhyOffset) -> None:
        """A slave's first report: where to start, and what it has."""
        whole_files = self.counted - self.counted % self.settings.file_size
        last_file = PhyOffset(max(whole_files, self.start))
        link.acked = offset
        link.first = link.next = offset or last_file
        self.refused.pop(link.host, None)

    def _refuse(self, link: PlainLink, offset: PhyOffset, fault: str) -> list[MasterEffect]:
        why = f"{link.address} reports {offset}, {fault}"
        self.refused.pop(link.host, None)
        while len(self.refused) >= REFUSED_MAX:
            del self.refused[next(iter(self.refused))]
        self.refused[link.host] = why
        return self._close(link, why)

    def _close(self, link: PlainLink, why: str) -> list[MasterEffect]:
        del self.links[link.number]
        return [Close(link=link.number), Trace(name="ha.slave.closed", why=why)]

    # Waiting sends.

    def _queue_of(self, copies: int) -> Waiting:
        for wanted, waiting in self._waiting:
            if wanted == copies:
                return waiting
        waiting = Waiting(wait_ns=self.settings.wait_ns)
        self._waiting.append((copies, waiting))
        return waiting

    def _advance(self) -> list[MasterEffect]:
        """Answer what has its copies."""
        if not any(waiting for _, waiting in self._waiting):
            return []
        hosts: dict[str, PhyOffset] = {}
        for link in self.links.values():
            if link.acked is not None:
                hosts[link.host] = max(link.acked, hosts.get(link.host, PhyOffset(0)))
        ends = [self.counted, *sorted(hosts.values(), reverse=True)]
        return [
            Acknowledge(ticket=ticket)
            for copies, waiting in self._waiting
            if copies <= len(ends)
            for ticket in waiting.reached(min(ends[0], ends[copies - 1]))
        ]

    # Time.

    def _on_timeout(self, now_ns: int) -> list[MasterEffect]:
        effects: list[MasterEffect] = []
        s = self.settings
        for link in list(self.links.values()):
            if now_ns >= link.heard_ns + s.housekeeping_ns:
                effects += self._close(link, f"{link.address} is silent")
            elif link.acked is not None and now_ns >= link.wrote_ns + s.heartbeat_ns:
                effects.append(self._send(now_ns, link, 0))
        why = "replicas did not acknowledge in time"
        for _, waiting in self._waiting:
            effects += [GiveUp(ticket=t, why=why) for t in waiting.expired(now_ns)]
        return effects
