"""Replication without controllers, driven by rules beside the logs as they truly are.

One master and two slaves, whose cores are the real ones; their logs are strings of bytes, and what
is on its way between them may be cut off at any moment. The master may lose the end of its log and
write other bytes there (power, ASYNC_FLUSH). Claims S6 and S8: what is acknowledged with so many
copies is in so many logs, and a slave's log is a piece of its master's, or stays as it was.
"""

from collections import deque
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from machines import SETTINGS, finds

from maxq.reference.broker.replication.plain import plain_events as events
from maxq.reference.broker.replication.plain.plain_master import PlainLink, PlainMaster
from maxq.reference.broker.replication.plain.plain_slave import PlainSlave
from maxq.reference.records import PhyOffset
from maxq.reference.wire.plain_ha import LogPiece

FILE = 64
CONFIG = events.PlainSettings(
    file_size=FILE, sync_master=True, in_sync_replicas=2, batch_bytes=16, window_bytes=48,
    heartbeat_ns=50, housekeeping_ns=200, wait_ns=30, dial_ns=50, retry_ns=10, gap_max=100,
)  # fmt: skip
SLAVES = st.sampled_from([0, 1])


class Slave:
    """A slave: its core, its log, and what is on its way to and from it."""

    def __init__(self, number: int) -> None:
        self.host = f"10.0.0.{number}"
        self.core = PlainSlave(settings=CONFIG)
        self.log, self.start = b"", 0
        self.frozen: bytes | None = None  # it was longer than its master: this must stay
        self.up: deque[int] = deque()
        self.down: deque[LogPiece] = deque()
        self.link = 0  # of the master; 0: none
        self.asks = False
        self.unseen = False  # its log is of other bytes, and no longer: nobody can tell


class PairMachine(RuleBasedStateMachine):
    """A master, two slaves, and everything that is lost or late between them."""

    @initialize()
    def begin(self) -> None:
        self.now, self.links, self.tickets, self.byte = 0, 0, 0, 0
        self.log, self.begins = b"", 0
        self.slaves = [Slave(1), Slave(2)]
        self.waits: dict[int, tuple[int, int]] = {}  # ticket -> end, copies
        self.master = self.fresh()
        for slave in self.slaves:
            self.follow(slave, events.Follow(address="m:1", end=PhyOffset(0)))

    def fresh(self) -> PlainMaster:
        end = PhyOffset(len(self.log))
        self.synced = end
        return PlainMaster(settings=CONFIG, start=PhyOffset(self.begins), end=end, counted=end)

    # Carrying out.

    def lead(self, event: events.MasterEvent) -> None:
        for effect in self.master.step(self.now, event):
            match effect:
                case events.SendPiece():
                    data = self.log[effect.start : effect.start + effect.size]
                    assert len(data) == effect.size
                    assert not data or effect.start + effect.size <= self.synced, "S8: not synced"
                    for slave in self.slaves:
                        if slave.link == effect.link:
                            slave.down.append(LogPiece(start=effect.start, data=data))
                case events.Close():
                    for slave in self.slaves:
                        if slave.link == effect.link:
                            self.cut(slave)
                case events.Acknowledge():
                    end, copies = self.waits.pop(effect.ticket)
                    assert self.copies(end) >= copies, (end, copies)
                    assert end <= self.synced, "S6: not on the disk"
                case events.GiveUp():
                    del self.waits[effect.ticket]

    def copies(self, end: int) -> int:
        """In how many logs the master's first `end` bytes are, but for files it was not sent."""
        ends = [s for s in self.slaves if s.start + len(s.log) >= end]
        have = [s for s in ends if s.unseen or s.log == self.part(s)]
        return 1 + len(have)

    def part(self, slave: Slave) -> bytes:
        return self.log[slave.start : slave.start + len(slave.log)]

    def follow(self, slave: Slave, event: events.SlaveEvent) -> None:
        for effect in slave.core.step(self.now, event):
            match effect:
                case events.Dial():
                    self.links += 1
                    slave.link = self.links
                    slave.up.clear()
                    slave.down.clear()
                    self.lead(events.Accepted(link=slave.link, host=slave.host))
                    self.follow(slave, events.Connected(link=effect.link))
                case events.Ask():
                    slave.asks = True
                case events.Hangup():
                    self.lead(events.Lost(link=slave.link))
                    slave.link, slave.asks = 0, False
                case events.SendReport():
                    slave.up.append(effect.offset)
                case events.Empty():
                    assert slave.start + len(slave.log) < self.begins, "it could be continued"
                    slave.start, slave.log = 0, b""
                case events.Append():
                    if not slave.log:
                        slave.start = effect.start
                    assert effect.start == slave.start + len(slave.log), "overwrites, or a gap"
                    slave.log += effect.data

    def cut(self, slave: Slave) -> None:
        slave.link, slave.asks = 0, False
        slave.up.clear()
        slave.down.clear()
        self.follow(slave, events.Lost(link=slave.core.link))

    # Rules.

    @rule(size=st.integers(1, 40), copies=st.integers(1, 3), at_once=st.booleans())
    def the_master_writes(self, size: int, copies: int, at_once: bool) -> None:
        """Bytes that no log of another life has; they count at once, or when they are synced."""
        self.byte += 1
        room = FILE - len(self.log) % FILE
        self.log += bytes([self.byte % 256]) * min(size, room)
        for slave in self.slaves:  # the protocol compares nothing but lengths
            here = slave.frozen is None and slave.start + len(slave.log) <= len(self.log)
            slave.unseen |= here and slave.log != self.part(slave)
        end = PhyOffset(len(self.log))
        self.synced = end if at_once else self.synced
        self.lead(events.Written(end=end, counted=self.synced))
        self.tickets += 1
        self.waits[self.tickets] = (end, copies)
        self.lead(events.Await(ticket=self.tickets, end=end, copies=copies))

    @rule()
    def the_master_syncs(self) -> None:
        self.synced = PhyOffset(len(self.log))
        self.lead(events.Written(end=self.synced, counted=self.synced))

    @rule(rounds=st.integers(1, 6))
    def it_flows(self, rounds: int) -> None:
        """What is on its way arrives, and what follows from it; dials are made."""
        self.now += 1
        for slave in self.slaves * rounds:
            if slave.core.phase == "waiting":
                self.now += CONFIG.retry_ns
                self.follow(slave, events.Timeout())
            self.tell_bounds(slave)
            while slave.up and slave.link:
                offset = PhyOffset(slave.up.popleft())
                self.lead(events.Reported(link=slave.link, offset=offset))
            if slave.down:
                piece = slave.down.popleft()
                self.follow(slave, events.Received(link=slave.core.link, piece=piece))

    def tell_bounds(self, slave: Slave) -> None:
        if slave.asks:
            slave.asks, end = False, PhyOffset(len(self.log))
            if slave.start + len(slave.log) > end and slave.frozen is None:
                slave.frozen = slave.log
            bounds = events.Bounds(link=slave.core.link, start=PhyOffset(self.begins), end=end)
            self.follow(slave, bounds)

    @rule()
    def the_master_deletes_old_files(self) -> None:
        """As far as no connected slave still copies."""
        start = min(self.master.copied, self.synced) // CONFIG.file_size * CONFIG.file_size
        if start > self.begins:
            self.begins = start
            self.lead(events.Trimmed(start=PhyOffset(start)))

    @rule(number=SLAVES)
    def a_link_is_cut(self, number: int) -> None:
        slave = self.slaves[number]
        if slave.link:
            self.lead(events.Lost(link=slave.link))
            self.cut(slave)

    @rule(number=SLAVES, offset=st.integers(0, 400))
    def a_stranger_reports(self, number: int, offset: int) -> None:
        """From a slave's host, what no slave of ours says: it must count as no copy."""
        if offset <= len(self.log):
            return
        self.links += 1
        self.lead(events.Accepted(link=self.links, host=f"10.0.1.{number}"))
        self.lead(events.Reported(link=self.links, offset=PhyOffset(offset)))
        assert self.links not in self.master.links
        assert self.master.refused[f"10.0.1.{number}"].startswith(f"10.0.1.{number}:0 reports")

    @rule(lost=st.integers(0, 30))
    def the_master_restarts(self, lost: int) -> None:
        self.log = self.log[: max(len(self.log) - lost, 0)]
        self.waits.clear()
        self.master = self.fresh()
        for slave in self.slaves:
            if slave.link:
                self.cut(slave)

    @rule(by=st.integers(1, 60))
    def time_passes(self, by: int) -> None:
        self.now += by
        self.lead(events.Timeout())
        for slave in self.slaves:
            self.follow(slave, events.Timeout())

    # What always holds.

    @invariant()
    def a_slave_has_its_masters_bytes_or_stays_as_it_was(self) -> None:
        for slave in getattr(self, "slaves", ()):
            if slave.frozen is not None:
                assert slave.log == slave.frozen, "S8: a longer slave was changed"
            elif slave.start + len(slave.log) <= len(self.log) and not slave.unseen:
                same = slave.log == self.part(slave)
                assert same or not slave.core.connected, "S8: other bytes than the master's"

    @invariant()
    def who_is_in_sync_has_said_so_in_this_connection(self) -> None:
        if hasattr(self, "master"):
            reported = {k.host for k in self.master.links.values() if k.acked is not None}
            assert self.master.in_sync_count <= 1 + len(reported)


TestPair = PairMachine.TestCase
TestPair.settings = settings(SETTINGS, max_examples=100)


def test_a_master_that_believes_every_report_is_found(monkeypatch: Any) -> None:
    """As RocketMQ's: a report beyond its end counts as a copy."""
    monkeypatch.setattr(PlainMaster, "_fault", lambda self, link, offset: "")
    finds(PairMachine)


def test_a_master_that_sends_what_is_not_synced_is_found(monkeypatch: Any) -> None:
    honest = PlainMaster._sendable

    def to_the_end(self: PlainMaster, link: PlainLink) -> int:
        counted, self.counted = self.counted, self.end
        try:
            return honest(self, link)
        finally:
            self.counted = counted

    monkeypatch.setattr(PlainMaster, "_sendable", to_the_end)
    finds(PairMachine)


@pytest.mark.parametrize("forgets", [False, True])
def test_a_slave_that_does_not_look_at_its_masters_end_is_found(
    monkeypatch: Any, *, forgets: bool
) -> None:
    """It goes on behind bytes that its master does not have, at once or when that one has grown."""
    honest = PlainSlave._fault

    def fault(self: PlainSlave, bounds: events.Bounds) -> str:
        if not forgets:
            return ""
        found = honest(self, bounds)
        self._longer = False
        return found

    monkeypatch.setattr(PlainSlave, "_fault", fault)
    finds(PairMachine)
