"""HA slave: finds where its log parts from the master's, copies on from there, acknowledges.

One connection at a time, numbered; what comes late from an older one is ignored. The shell carries
out the effects of a step in order and completely before the next step, so that an order here is an
order on disk, and `end` and `epochs` are the log's and the file's own between steps. Only `Sync`
runs beside. A connection's way: dialling, handshake, comparing (only if no epoch is shared; the
handshake is repeated meanwhile, so that neither side takes the other for dead), truncating (the
log is cut and the epoch list saved), transfer; then, after a pause, again.

What is promised, and to whom:

* An acknowledgement never speaks of more than is in this log and agrees with the master's; in a
  durable broker (SYNC_FLUSH), of more than is on the disk. (RocketMQ's slave acknowledges what is
  in memory whatever flushDiskType says, and can acknowledge bytes that it has lost:
  docs/spec/controller-ha.md 6.4 (H9).)
* Nothing is cut for a master older than the one the controller named, or than the last one that
  this log heard of: the newer one may have had bytes acknowledged that only this log holds.
* A log that shares no epoch with the master's is compared with it, and cut where they differ only
  while this broker is known not to be in the SyncStateSet. (RocketMQ keeps it and never joins
  again, or, where the epoch list is empty, copies on behind unknown bytes.)

Offsets are bytes of the commit log, ends exclusive; times are ns of this node's monotonic clock.
Claims: S6, S8, S9, S14. Source: docs/spec/controller-ha.md 4.3, 4.6, 6.5; RocketMQ
``AutoSwitchHAClient``.
"""

from dataclasses import dataclass, field
from typing import Literal, assert_never

from maxq.reference.broker.replication import epochs as policy
from maxq.reference.broker.replication.epochs import Epochs
from maxq.reference.broker.replication.ha_settings import SlaveTiming
from maxq.reference.broker.replication.ha_slave_events import (
    Append,
    AppendFailed,
    Compare,
    Compared,
    Confirm,
    Connected,
    Dial,
    Effect,
    Event,
    Follow,
    Hangup,
    Lost,
    Received,
    Send,
    Stop,
    Sync,
    Synced,
    Timeout,
    Trace,
    Trim,
    Trimmed,
    Truncate,
    Truncated,
    Uncompared,
)
from maxq.reference.records import BrokerId, MasterEpoch, PhyOffset, invariant, some
from maxq.reference.wire.ha import (
    NO_OFFSET,
    MasterHandshake,
    SlaveAck,
    SlaveHandshake,
    Transfer,
)

Phase = Literal[
    "stopped", "waiting", "dialling", "handshake", "comparing", "truncating", "transfer"
]


@dataclass(slots=True)
class HaSlave:
    """The slave side of one broker."""

    broker_id: BrokerId
    durable: bool = False  # acknowledge only what is synced
    async_learner: bool = False
    sync_from_last_file: bool = False
    timing: SlaveTiming = field(default_factory=SlaveTiming)

    phase: Phase = "stopped"
    connection: int = 0  # the current or last one
    address: str = ""
    master_epoch: MasterEpoch = MasterEpoch(0)
    start: PhyOffset = PhyOffset(0)
    end: PhyOffset = PhyOffset(0)  # of the log, with all appends asked for so far
    epochs: Epochs = ()
    confirm: PhyOffset = PhyOffset(0)
    reported: PhyOffset = PhyOffset(0)  # acknowledged last on this connection
    _in_sync_state_set: bool = True
    _theirs: MasterHandshake | None = None  # the master's log as of the handshake
    _joined: bool = False  # a transfer has come on this connection
    _syncing: bool = False
    _retry_at_ns: int = 0
    heard_ns: int = 0
    wrote_ns: int = 0

    def next_deadline_ns(self) -> int | None:
        """When `Timeout` is due."""
        match self.phase:
            case "stopped" | "truncating":
                return None
            case "waiting":
                return self._retry_at_ns if self.address else None
            case "dialling" | "handshake":
                return self.heard_ns + self.timing.handshake_ns
            case "comparing" | "transfer":
                beat = self.wrote_ns + self.timing.heartbeat_ns
                return min(beat, self.heard_ns + self.timing.housekeeping_ns)

    def step(self, now_ns: int, event: Event) -> list[Effect]:
        """Take one event; return what to do, in this order."""
        match event:
            case Follow():
                return self._on_follow(now_ns, event)
            case Stop():
                return self._on_stop()
            case Connected():
                return self._on_connected(now_ns, event)
            case Received():
                return self._on_received(now_ns, event)
            case Lost():
                return self._on_lost(now_ns, event)
            case Compared():
                return self._on_compared(now_ns, event)
            case Uncompared():
                if event.connection != self.connection or self.phase != "comparing":
                    return [Trace(name="ha.compared.ignored", why="other connection")]
                return self._leave(now_ns, f"not compared: {event.why}")
            case Trimmed():
                return self._on_trimmed(event)
            case Truncated():
                return self._on_truncated(now_ns, event)
            case Synced():
                return self._on_synced(now_ns, event)
            case AppendFailed():
                return self._on_append_failed(now_ns, event)
            case Timeout():
                return self._on_timeout(now_ns)
            case _:
                assert_never(event)

    # Whom to follow.

    def _on_follow(self, now_ns: int, follow: Follow) -> list[Effect]:
        if follow.master_epoch < self.master_epoch:
            return [Trace(name="ha.follow.ignored", why="older master epoch")]
        # The same master, elected again or not: the connection is good.
        moved = follow.address != self.address
        self.address = follow.address
        self.master_epoch = follow.master_epoch
        self._in_sync_state_set = follow.in_sync_state_set
        if self.phase == "stopped":
            log = follow.log
            self.start, self.end, self.confirm = log.start, log.end, log.confirm
            self.epochs = policy.reconcile(log.epochs, log.end)
            moved = True
        if self.phase in ("stopped", "waiting"):
            self.phase = "waiting"
            self._retry_at_ns = now_ns if moved else self._retry_at_ns
            return []
        if not moved:
            return []
        effects = self._leave(now_ns, "master moved")
        self._retry_at_ns = now_ns
        return effects

    def _on_stop(self) -> list[Effect]:
        effects = self._hangup()
        self.phase, self.address = "stopped", ""
        return effects

    # One connection's way.

    def _on_timeout(self, now_ns: int) -> list[Effect]:
        due = self.next_deadline_ns()
        if due is None or now_ns < due:
            return []
        if self.phase == "waiting":
            self.phase, self.connection, self.heard_ns = "dialling", self.connection + 1, now_ns
            self._theirs, self._syncing, self._joined = None, False, False
            return [Dial(connection=self.connection, address=self.address)]
        if self.phase in ("dialling", "handshake"):
            return self._leave(now_ns, f"no answer in {self.phase}")
        if now_ns >= self.heard_ns + self.timing.housekeeping_ns:
            return self._leave(now_ns, "silent master")
        if self.phase == "comparing":
            return [self._hello(now_ns)]
        if self._awaits_first_sync():
            self.wrote_ns = now_ns  # nothing may be said yet; look again later
            return []
        return [self._ack(now_ns, self.reported)]

    def _on_connected(self, now_ns: int, event: Connected) -> list[Effect]:
        if event.connection != self.connection or self.phase != "dialling":
            return [Hangup(connection=event.connection)]
        self.phase, self.heard_ns = "handshake", now_ns
        return [self._hello(now_ns)]

    def _hello(self, now_ns: int) -> Send:
        self.wrote_ns = now_ns
        packet = SlaveHandshake(
            broker_id=self.broker_id,
            sync_from_last_file=self.sync_from_last_file,
            async_learner=self.async_learner,
        )
        return Send(connection=self.connection, packet=packet)

    def _on_received(self, now_ns: int, event: Received) -> list[Effect]:
        if event.connection != self.connection:
            return [Trace(name="ha.packet.ignored", why="other connection")]
        packet = event.packet
        self.heard_ns = now_ns
        if self.phase == "handshake" and isinstance(packet, MasterHandshake):
            return self._on_handshake(now_ns, packet)
        if self.phase == "comparing" and isinstance(packet, MasterHandshake):
            fault = self._fault(packet)
            self._theirs = packet
            return self._leave(now_ns, fault) if fault else []
        if self.phase == "transfer" and isinstance(packet, Transfer):
            return self._on_transfer(now_ns, packet)
        if self.phase in ("stopped", "waiting"):
            return [Trace(name="ha.packet.ignored", why="connection left")]
        return self._leave(now_ns, f"{type(packet).__name__} in {self.phase}")

    def _on_lost(self, now_ns: int, event: Lost) -> list[Effect]:
        if event.connection != self.connection or self.phase in ("stopped", "waiting"):
            return [Trace(name="ha.lost.ignored", why=event.why)]
        return self._leave(now_ns, event.why)

    def _leave(self, now_ns: int, why: str) -> list[Effect]:
        """Close the connection and try again after a pause."""
        effects = self._hangup()
        self.phase, self._retry_at_ns = "waiting", now_ns + self.timing.retry_ns
        return [*effects, Trace(name="ha.slave.left", why=why)]

    def _hangup(self) -> list[Effect]:
        if self.phase in ("stopped", "waiting"):
            return []
        return [Hangup(connection=self.connection)]

    # Handshake: what to keep.

    def _on_handshake(self, now_ns: int, theirs: MasterHandshake) -> list[Effect]:
        fault = self._fault(theirs)
        if fault:
            return self._leave(now_ns, fault)
        point = policy.truncation_point(self.epochs, self.end, theirs.epochs, theirs.max_offset)
        if point is None or point < self.start:  # the shared part is not kept here
            return self._compare(now_ns, theirs)
        return self._cut(theirs, point)

    def _compare(self, now_ns: int, theirs: MasterHandshake) -> list[Effect]:
        """No entry says what both logs share."""
        self.phase, self._theirs, self.wrote_ns = "comparing", theirs, now_ns
        ends = f"no shared epoch: {self.start} to {self.end}, the master's to {theirs.max_offset}"
        return [
            Trace(name="ha.slave.compares", why=ends),
            Compare(connection=self.connection, address=self.address, their_end=theirs.max_offset),
        ]

    def _on_compared(self, now_ns: int, event: Compared) -> list[Effect]:
        if event.connection != self.connection or self.phase != "comparing":
            return [Trace(name="ha.compared.ignored", why="other connection")]
        invariant(event.equal <= event.whole <= self.end, "compared what is here", event=event)
        theirs = some(self._theirs, "what is compared with said hello")
        point = policy.kept_after_comparison(
            event.equal, event.whole, member=self._in_sync_state_set
        )
        if point is None:
            why = f"other records than the master's from {event.equal} to {event.whole}"
            return self._leave(now_ns, f"{why}, and a member of the SyncStateSet")
        self.epochs = ()
        if point > self.start:
            return self._cut(theirs, point)
        dropped = Trace(name="ha.slave.resync", why=f"{self.end - self.start} bytes dropped")
        return [dropped, *self._truncate(theirs, PhyOffset(0))]

    def _cut(self, theirs: MasterHandshake, point: PhyOffset) -> list[Effect]:
        effects: list[Effect] = []
        if point < self.end:
            effects.append(Trace(name="ha.slave.cut", why=f"{self.end} to {point}"))
        return effects + self._truncate(theirs, point)

    def _fault(self, theirs: MasterHandshake) -> str:
        """Why a master must not be followed; empty if it may."""
        if not theirs.epochs or not policy.is_ascending(theirs.epochs) or theirs.max_offset < 0:
            return "no epoch list that can be true"
        newest = policy.last_epoch(theirs.epochs)
        if newest < self.master_epoch:
            return f"its epoch {newest} is older than the master's, {self.master_epoch}"
        if newest < policy.last_epoch(self.epochs):
            return f"its epoch {newest} is older than this log's"
        return ""

    def _truncate(self, theirs: MasterHandshake, point: PhyOffset) -> list[Effect]:
        if point == 0:
            self.start, self.epochs = PhyOffset(0), ()
        self.epochs = policy.adopted(self.epochs, theirs.epochs, self.start, point)
        self.phase, self.end, self._theirs = "truncating", point, theirs
        effects: list[Effect] = []
        if point < self.confirm:
            self.confirm = point
            effects.append(Confirm(offset=point))
        done = Truncated(connection=self.connection, end=point)
        return [*effects, Truncate(end=point, epochs=self.epochs, done=done)]

    def _on_truncated(self, now_ns: int, event: Truncated) -> list[Effect]:
        if event.connection != self.connection or self.phase != "truncating":
            return [Trace(name="ha.truncated.ignored", why="other connection")]
        invariant(event.end == self.end, "truncated where asked", event=event, end=self.end)
        self.phase, self.heard_ns = "transfer", now_ns
        self.wrote_ns = now_ns
        # The first acknowledgement is also the request: the master goes on from there.
        if self.durable:
            self.reported = NO_OFFSET
            return self._sync()
        return [self._ack(now_ns, self.end)]

    # Transfer.

    def _on_transfer(self, now_ns: int, frame: Transfer) -> list[Effect]:
        if frame.start == NO_OFFSET and not frame.data:
            return []  # a master that has not chosen where to start is alive, no more
        if self._must_begin_anew(frame):
            return self._begin_anew(now_ns, frame.start)
        fault = self._transfer_fault(frame)
        if fault:
            return self._leave(now_ns, fault)
        self._joined = True
        epochs = self._epochs_with(frame)
        effects: list[Effect] = []
        if frame.data or epochs is not None:
            effects.append(self._append(now_ns, frame, epochs))
        confirm = min(frame.confirm_offset, self.end)
        if confirm != self.confirm and confirm >= 0:
            self.confirm = confirm
            effects.append(Confirm(offset=confirm))
        if frame.data and self.durable:
            effects += self._sync()
        return effects

    def _must_begin_anew(self, frame: Transfer) -> bool:
        """Whether the master no longer has what follows on this log. What a member of the
        SyncStateSet still copies is never trimmed, so a member keeps what it has."""
        first = not self._joined and not self._awaits_first_sync()
        return first and frame.start > self.end > 0 and not self._in_sync_state_set

    def _begin_anew(self, now_ns: int, start: PhyOffset) -> list[Effect]:
        """Throw the log away and ask again, from nothing."""
        why = f"{self.end} bytes dropped: the master's log begins at {start}"
        effects = self._leave(now_ns, why)
        self._retry_at_ns = now_ns
        self.start = self.end = PhyOffset(0)
        self.epochs = ()
        if self.confirm:
            self.confirm = PhyOffset(0)
            effects.append(Confirm(offset=self.confirm))
        done = Truncated(connection=self.connection, end=self.end)
        return [*effects, Truncate(end=self.end, epochs=(), done=done)]

    def _on_trimmed(self, event: Trimmed) -> list[Effect]:
        """Of what is confirmed, and of files that are not the last."""
        if not self.start < event.start <= self.confirm or event.start >= self.end:
            return [Trace(name="ha.trimmed.ignored", why="not confirmed any more, or not new")]
        self.start, self.epochs = event.start, policy.cut_prefix(self.epochs, event.start)
        return [Trim(start=event.start, epochs=self.epochs)]

    def _transfer_fault(self, frame: Transfer) -> str:
        """Why a frame cannot follow what is here; empty if it does."""
        if frame.start < 0 or frame.epoch_start < 0:
            return "negative offset"
        if self._awaits_first_sync():
            return "transfer before it was asked for"
        begins = self._begins(frame)
        if frame.start != self.end and not begins:
            return f"gap or overlap: at {frame.start}, log ends at {self.end}"
        known = policy.last_epoch(self.epochs)
        if frame.epoch < max(known, 1):
            return f"epoch {frame.epoch} after {known}"
        if frame.epoch > known and not begins and frame.epoch_start < frame.start:
            return f"epoch {frame.epoch} starts at {frame.epoch_start}, before {frame.start}"
        if frame.epoch == known and not begins and frame.epoch_start != self.epochs[-1].start:
            return f"epoch {known} starts at {frame.epoch_start}, was {self.epochs[-1].start}"
        # RocketMQ labels the last piece of an epoch with the next one: up to its start, that is.
        # Its first entry may lie anywhere: before it nothing is labelled.
        within = frame.start < frame.epoch_start < frame.start + len(frame.data)
        if within and any(e.epoch < frame.epoch for e in self.epochs):
            return f"epoch {frame.epoch} starts within a transfer"
        return ""

    def _begins(self, frame: Transfer) -> bool:
        """Whether an empty log begins here, since the master keeps nothing that is older."""
        return self.end == 0 and frame.start > 0

    def _epochs_with(self, frame: Transfer) -> Epochs | None:
        """The epoch list that a frame leads to; None if it says nothing new."""
        mine = self.epochs
        if self._begins(frame):  # with the master's epochs as of here
            theirs = self._theirs.epochs if self._theirs else ()
            mine = policy.adopted((), theirs, frame.start, frame.start)
            mine = policy.cut_from_epoch(mine, frame.epoch)
        mine = policy.append(mine, frame.epoch, frame.epoch_start) or mine
        return None if mine == self.epochs else mine

    def _append(self, now_ns: int, frame: Transfer, epochs: Epochs | None) -> Append:
        if epochs is not None:
            self.epochs = epochs
        then: tuple[Send, ...] = ()
        if frame.data:
            if self.end == 0:
                self.start = frame.start
            self.end = PhyOffset(frame.start + len(frame.data))
            if not self.durable:
                then = (self._ack(now_ns, self.end),)
        return Append(start=frame.start, data=frame.data, epochs=epochs, then=then)

    def _awaits_first_sync(self) -> bool:
        return self.durable and self.reported == NO_OFFSET

    def _sync(self) -> list[Effect]:
        """Begin a sync, unless one is under way: then another follows it."""
        if self._syncing:
            return []
        self._syncing = True
        return [Sync(done=Synced(connection=self.connection, end=self.end))]

    def _on_synced(self, now_ns: int, event: Synced) -> list[Effect]:
        # A sync begun before a cut may end after it: it proves nothing.
        if event.connection != self.connection or self.phase != "transfer":
            return [Trace(name="ha.synced.ignored", why="other connection")]
        invariant(event.end <= self.end, "durable only what was accepted", event=event)
        self._syncing = False
        ack = self._ack(now_ns, event.end)
        return [ack, *(self._sync() if event.end < self.end else [])]

    def _ack(self, now_ns: int, end: PhyOffset) -> Send:
        invariant(0 <= end <= self.end, "S9: no acknowledgement of what is not here", end=end)
        self.reported, self.wrote_ns = end, now_ns
        return Send(connection=self.connection, packet=SlaveAck(offset=end))

    def _on_append_failed(self, now_ns: int, event: AppendFailed) -> list[Effect]:
        self.end, self.epochs = event.end, event.epochs
        self.confirm = min(self.confirm, self.end)
        if self.phase in ("stopped", "waiting"):
            return [Trace(name="ha.append.failed", why=event.why)]
        return self._leave(now_ns, f"append failed: {event.why}")
