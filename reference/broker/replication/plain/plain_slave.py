"""The slave of a pair without controllers: copies its master's log, byte for byte.

The protocol compares nothing, so the slave asks first (request 28): where the master's log begins
and ends. It asks once it is connected, so that a master which dies meanwhile takes the connection
with it, and speaks only if its own log lies within. Longer than its master's, it has what that one
has lost: it says so, stays out, and overwrites nothing; nor does it come back when the master's log
has grown, which then has other bytes there. Logs of one length and other bytes are not told apart.

A log that ends before its master's begins is emptied: all of it got old there, and nothing can
continue it. An empty log may begin anywhere: RocketMQ's master sends its last file only. Then the
connection is left, until the ends of the queues are known
(`maxq.reference.broker.membership.metadata_sync`).

Bytes are reported when they are in the log, in a durable broker (SYNC_FLUSH) when they are on the
disk. Offsets are bytes of the commit log, ends exclusive; times are ns of the node's monotonic
clock. Claims: S8, S9. Source: RocketMQ ``DefaultHAClient``, ``DefaultHAConnection``; captures of
5.5.0.
"""

from dataclasses import dataclass
from typing import assert_never

from maxq.reference.broker.replication.plain.plain_events import (
    Append,
    AppendFailed,
    Ask,
    Bounds,
    Connected,
    Dial,
    Empty,
    Follow,
    Hangup,
    Lost,
    PlainSettings,
    Received,
    SendReport,
    SlaveEffect,
    SlaveEvent,
    SlavePhase,
    Sync,
    Synced,
    Timeout,
    Trace,
)
from maxq.reference.records import PhyOffset, invariant


@dataclass(slots=True)
class PlainSlave:
    """The slave side of one broker."""

    settings: PlainSettings
    durable: bool = False
    phase: SlavePhase = "stopped"
    address: str = ""
    end: PhyOffset = PhyOffset(0)
    reported: PhyOffset | None = None  # in this connection
    link: int = 0
    out: str = ""  # why it stays out; empty while it may copy
    heard_ns: int = 0
    wrote_ns: int = 0
    _longer: bool = False  # it was longer than its master once
    _began_ns: int = 0  # of this phase
    _syncing: bool = False

    @property
    def connected(self) -> bool:
        """Whether the master's log is copied."""
        return self.phase == "transfer"

    def next_deadline_ns(self) -> int | None:
        """When `Timeout` is due."""
        s = self.settings
        match self.phase:
            case "stopped":
                return None
            case "waiting":
                return self._began_ns + s.retry_ns
            case "dialling" | "asking":
                return self._began_ns + s.dial_ns
            case "syncing":
                return self.heard_ns + s.housekeeping_ns
            case "transfer":
                return min(self.heard_ns + s.housekeeping_ns, self.wrote_ns + s.heartbeat_ns)

    def step(self, now_ns: int, event: SlaveEvent) -> list[SlaveEffect]:
        """Take one event; return what to do, in this order."""
        match event:
            case Follow():
                return self._on_follow(now_ns, event)
            case AppendFailed():
                self.end = event.end
                gone = self.phase in ("stopped", "waiting")
                return [] if gone else self._leave(now_ns, f"append failed: {event.why}")
            case Timeout():
                return self._on_timeout(now_ns)
            case Connected() | Bounds() | Received() | Synced() | Lost():
                if event.link != self.link or self.phase in ("stopped", "waiting"):
                    return [Trace(name="ha.event.ignored", why="of a connection that is left")]
                return self._on_news(now_ns, event)
            case _:
                assert_never(event)

    def _on_news(
        self, now_ns: int, event: Connected | Bounds | Received | Synced | Lost
    ) -> list[SlaveEffect]:
        match event:
            case Connected():
                self._enter(now_ns, "asking")
                return [Ask(link=self.link)]
            case Bounds():
                return self._on_bounds(now_ns, event)
            case Received():
                return self._on_received(now_ns, event)
            case Synced():
                return self._on_synced(now_ns, event)
            case Lost():
                return self._leave(now_ns, event.why)

    # Connections.

    def _on_follow(self, now_ns: int, event: Follow) -> list[SlaveEffect]:
        if event.address == self.address:
            return []
        effects = self._hangup()
        if self.phase == "stopped":
            self.end = event.end
        self.address = event.address
        if not event.address:
            self.phase = "stopped"
            return effects
        return effects + self._dial(now_ns)

    def _dial(self, now_ns: int) -> list[SlaveEffect]:
        self.link, self.reported, self._syncing = self.link + 1, None, False
        self._enter(now_ns, "dialling")
        return [Dial(link=self.link, address=self.address)]

    def _enter(self, now_ns: int, phase: SlavePhase) -> None:
        self.phase, self._began_ns, self.heard_ns = phase, now_ns, now_ns

    def _leave(self, now_ns: int, why: str) -> list[SlaveEffect]:
        """Close the connection and try again after a pause."""
        effects = self._hangup()
        self._enter(now_ns, "waiting")
        return [*effects, Trace(name="ha.slave.left", why=why)]

    def _hangup(self) -> list[SlaveEffect]:
        gone = self.phase in ("stopped", "waiting")
        return [] if gone else [Hangup(link=self.link)]

    def _on_bounds(self, now_ns: int, event: Bounds) -> list[SlaveEffect]:
        if self.phase != "asking":
            return [Trace(name="ha.bounds.ignored", why=f"in {self.phase}")]
        fault = self._fault(event)
        if fault:
            return self._stay_out(now_ns, fault)
        self.out = ""
        emptied = self._emptied(event)
        if self.durable:
            self._enter(now_ns, "syncing")
            return [*emptied, *self._sync()]
        self._enter(now_ns, "transfer")
        return [*emptied, self._report(now_ns, self.end)]

    def _emptied(self, master: Bounds) -> list[SlaveEffect]:
        """Begin anew where all that this log has got old at its master, and what comes next has."""
        if not 0 < self.end < master.start:
            return []
        why = f"{self.end} bytes, the master's log begins at {master.start}"
        self.end = PhyOffset(0)
        return [Empty(), Trace(name="ha.slave.resync", why=why)]

    def _stay_out(self, now_ns: int, why: str) -> list[SlaveEffect]:
        """Leave, and ask again after a pause; said once."""
        new, self.out = why != self.out, why
        effects = self._hangup()
        self._enter(now_ns, "waiting")
        return [*effects, Trace(name="ha.slave.out", why=why)] if new else effects

    def _fault(self, master: Bounds) -> str:
        """Why this log cannot be continued by the master's; empty if it may be."""
        theirs = f"the master's is {master.start} to {master.end}"
        self._longer = self._longer or self.end > master.end
        if self.end > master.end:
            return f"this log ends at {self.end}, {theirs}: it has what that one has lost"
        if self._longer:
            return f"this log was longer than the master's: other bytes before {self.end}"
        return ""

    # Transfer.

    def _on_received(self, now_ns: int, event: Received) -> list[SlaveEffect]:
        self.heard_ns = now_ns
        piece = event.piece
        if self.phase != "transfer":
            return self._leave(now_ns, f"log in {self.phase}")
        begins = self.end == 0 and piece.start > 0
        if not piece.data and begins:
            return []  # the master says where it would begin
        if piece.start != self.end and not begins:
            return self._leave(now_ns, f"gap or overlap: at {piece.start}, ends at {self.end}")
        if not piece.data:
            return []
        self.end = PhyOffset(piece.start + len(piece.data))
        effects: list[SlaveEffect] = [Append(start=piece.start, data=piece.data)]
        if begins:
            return [*effects, *self._leave(now_ns, "begun above 0: queues' ends are asked for")]
        return effects + (self._sync() if self.durable else [self._report(now_ns, self.end)])

    def _sync(self) -> list[SlaveEffect]:
        """Begin a sync, unless one is under way: then another follows it."""
        if self._syncing:
            return []
        self._syncing = True
        return [Sync(link=self.link)]

    def _on_synced(self, now_ns: int, event: Synced) -> list[SlaveEffect]:
        self._syncing = False
        if self.phase == "syncing":
            if event.end < self.end:
                return self._sync()
            self._enter(now_ns, "transfer")
        effects: list[SlaveEffect] = [self._report(now_ns, event.end)]
        return effects + (self._sync() if event.end < self.end else [])

    def _report(self, now_ns: int, end: PhyOffset) -> SendReport:
        invariant(0 <= end <= self.end, "S9: no report of what is not here", end=end)
        self.reported, self.wrote_ns = end, now_ns
        return SendReport(link=self.link, offset=end)

    # Time.

    def _on_timeout(self, now_ns: int) -> list[SlaveEffect]:
        deadline = self.next_deadline_ns()
        if deadline is None or now_ns < deadline:
            return []
        if self.phase == "waiting":
            return self._dial(now_ns)
        if self.phase in ("dialling", "asking"):
            return self._leave(now_ns, f"no answer, {self.phase}")
        if now_ns >= self.heard_ns + self.settings.housekeeping_ns:
            return self._leave(now_ns, "the master is silent")
        return [self._report(now_ns, self.end if self.reported is None else self.reported)]
