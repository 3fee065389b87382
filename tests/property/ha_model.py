"""A broker set made of cores only: logs in memory, packets in queues, a controller of ten lines.

One action at a time changes it; what may be delayed, lost or cut short by a crash is an action of
its own, and the caller draws them. After each action `check` compares all logs with all promises.
Sends are records of unique bytes, each led by its length, so a log can be walked.
"""

from collections import deque
from dataclasses import dataclass, field
from random import Random
from typing import Any

from maxq.reference.broker.replication import epochs as policy
from maxq.reference.broker.replication import ha_master_events as master
from maxq.reference.broker.replication import ha_slave_events as slave
from maxq.reference.broker.replication.epochs import Epochs
from maxq.reference.broker.replication.ha_master import HaMaster
from maxq.reference.broker.replication.ha_settings import MasterSettings
from maxq.reference.broker.replication.ha_slave import HaSlave
from maxq.reference.broker.replication.sync_state_set import ProposeSyncStateSet
from maxq.reference.records import BrokerId, MasterEpoch, PhyOffset
from maxq.reference.wire import ha as wire

FILE_SIZE = 64
SECOND = 1_000_000_000


class Crashed(Exception):
    """The broker died between two effects."""


@dataclass
class Log:
    """Bytes, how many of them are synced, and the epoch file (durable at each save)."""

    data: bytes = b""
    synced: int = 0
    saved: Epochs = ()

    def whole_end(self) -> int:
        at = 0
        while at < len(self.data) and at + self.data[at] <= len(self.data):
            at += self.data[at]
        return at


@dataclass
class Connection:
    """A slave's connection to a master: two queues of packets."""

    slave: int
    number: int  # as the slave counts
    master: int
    link: int  # as the master counts
    up: deque[wire.SlavePacket] = field(default_factory=deque)
    down: deque[wire.MasterPacket] = field(default_factory=deque)


@dataclass
class Broker:
    """One broker: what is on its disk, and its two cores while it lives."""

    id: BrokerId
    log: Log
    as_slave: HaSlave | None = None
    as_master: HaMaster | None = None
    epoch: int = 0  # the newest term that it was told
    syncs: list[slave.Synced] = field(default_factory=list)
    dials: list[slave.Dial] = field(default_factory=list)
    waiting: dict[int, tuple[int, bytes]] = field(default_factory=dict)

    @property
    def alive(self) -> bool:
        return self.as_slave is not None


@dataclass
class Model:
    """The set, its network and its controller."""

    rng: Random
    size: int = 3
    durable: bool = False
    settings: MasterSettings = field(
        default_factory=lambda: MasterSettings(
            file_size=FILE_SIZE, batch_bytes=24, window_bytes=100, all_ack=True
        )
    )
    now: int = 0
    chief: int = 0  # the controller's master
    epoch: int = 0
    members: frozenset[BrokerId] = frozenset()
    set_epoch: int = 0
    connections: list[Connection] = field(default_factory=list)
    requests: list[tuple[int, ProposeSyncStateSet]] = field(default_factory=list)
    acked: dict[bytes, int] = field(default_factory=dict)  # record -> offset
    crash_in: int = -1  # effects until the next crash
    healed: bool = False
    links: int = 0
    records: int = 0
    seen: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.brokers = {i: Broker(BrokerId(i), Log()) for i in range(1, self.size + 1)}
        for broker in self.brokers.values():
            self.start(broker)

    def note(self, name: str) -> None:
        self.seen[name] = self.seen.get(name, 0) + 1

    # Life and death.

    def start(self, broker: Broker) -> None:
        broker.log.saved = policy.reconcile(broker.log.saved, PhyOffset(len(broker.log.data)))
        broker.as_slave = HaSlave(broker_id=broker.id, durable=self.durable)
        broker.as_master = HaMaster(broker_id=broker.id, settings=self.settings)
        broker.epoch = 0

    def kill(self, broker: Broker, *, power: bool = False) -> None:
        self.note("kill")
        if power:
            keep = self.rng.randint(broker.log.synced, len(broker.log.data))
            broker.log.data = broker.log.data[:keep]
        broker.log.synced = min(broker.log.synced, len(broker.log.data))
        broker.as_slave = broker.as_master = None
        broker.syncs, broker.dials, broker.waiting = [], [], {}
        for conn in [c for c in self.connections if broker.id in (c.slave, c.master)]:
            self.cut(conn)

    def cut(self, conn: Connection) -> None:
        """End a connection; what was on its way is lost."""
        if conn not in self.connections:
            return
        self.connections.remove(conn)
        self.to_slave(self.brokers[conn.slave], slave.Lost(connection=conn.number, why="cut"))
        self.to_master(self.brokers[conn.master], master.Lost(link=conn.link))

    # The controller.

    def elect(self, chosen: int) -> None:
        self.note("elect")
        self.epoch, self.chief = self.epoch + 1, chosen
        self.members, self.set_epoch = frozenset({BrokerId(chosen)}), self.set_epoch + 1

    def tell(self, broker: Broker) -> None:
        """A broker polls the controller."""
        if (
            not broker.alive
            or not self.epoch
            or broker.as_slave is None
            or broker.as_master is None
        ):
            return
        if self.epoch == broker.epoch:
            self.to_master(
                broker,
                master.Known(
                    master_epoch=MasterEpoch(self.epoch),
                    sync_state_set_epoch=self.set_epoch,
                    members=self.members,
                ),
            )
            if broker.id != self.chief:
                self.follow(broker)
            return
        broker.epoch = self.epoch
        if broker.id == self.chief:
            self.lead(broker)
        else:
            self.to_master(broker, master.Resign())
            self.follow(broker)

    def follow(self, broker: Broker) -> None:
        log = broker.log
        state = slave.LogState(
            start=PhyOffset(0), end=PhyOffset(len(log.data)), epochs=log.saved, confirm=PhyOffset(0)
        )
        # A name server may know an older master's HA address only.
        stale = not self.healed and self.rng.random() < 0.2
        event = slave.Follow(
            address=str(self.rng.randint(1, self.size) if stale else self.chief),
            master_epoch=MasterEpoch(self.epoch),
            in_sync_state_set=broker.id in self.members,
            log=state,
        )
        self.to_slave(broker, event)

    def lead(self, broker: Broker) -> None:
        self.to_slave(broker, slave.Stop())
        log = broker.log
        log.data = log.data[: log.whole_end()]
        log.synced = end = len(log.data)
        epochs = policy.append(log.saved, MasterEpoch(self.epoch), PhyOffset(end))
        if epochs is None:
            self.note("lead refused")
            return
        log.saved = epochs
        self.to_master(
            broker,
            master.Lead(
                master_epoch=MasterEpoch(self.epoch),
                members=self.members,
                sync_state_set_epoch=self.set_epoch,
                epochs=epochs,
                start=PhyOffset(0),
                end=PhyOffset(end),
                counted=PhyOffset(end),
            ),
        )

    def decide(self, request: tuple[int, ProposeSyncStateSet], answer: str) -> None:
        """The controller takes a proposal; `answer` says what the master learns: its outcome, or
        nothing, before or without it."""
        by, proposal = request
        asked = self.brokers[by]
        if answer == "lost-request":
            self.requests.remove(request)
        if answer != "told":
            event = master.Answered(number=proposal.number, outcome="unknown")
            self.to_master(asked, event)
            if answer == "late-request":
                return  # it may still come
        if answer == "lost-request":
            return
        self.requests.remove(request)
        members = frozenset(proposal.members)
        fits = (by, proposal.master_epoch, proposal.sync_state_set_epoch) == (
            self.chief, self.epoch, self.set_epoch,
        )  # fmt: skip
        alive = all(self.brokers[m].alive for m in members)
        if fits and alive and members != self.members:
            self.note("grow" if len(members) > len(self.members) else "shrink")
            self.members, self.set_epoch = members, self.set_epoch + 1
            if answer == "told" and asked.epoch == self.epoch:
                self.tell(asked)
        elif answer == "told":
            self.to_master(asked, master.Answered(number=proposal.number, outcome="refused"))

    # Cores and their effects.

    def to_slave(self, broker: Broker, event: slave.Event) -> None:
        if broker.as_slave is None:
            return
        try:
            for effect in broker.as_slave.step(self.now, event):
                self.tick_crash()
                self.do_slave(broker, effect)
        except Crashed:
            self.kill(broker)

    def to_master(self, broker: Broker, event: master.Event) -> None:
        if broker.as_master is None:
            return
        try:
            for effect in broker.as_master.step(self.now, event):
                self.tick_crash()
                self.do_master(broker, effect)
        except Crashed:
            self.kill(broker)

    def tick_crash(self) -> None:
        self.crash_in -= 1
        if self.crash_in == 0:
            self.note("crash within a step")
            raise Crashed

    def do_slave(self, broker: Broker, effect: slave.Effect) -> None:
        log = broker.log
        match effect:
            case slave.Dial():
                broker.dials.append(effect)
            case slave.Hangup():
                for conn in self.connections:
                    if (conn.slave, conn.number) == (broker.id, effect.connection):
                        self.connections.remove(conn)
                        self.to_master(self.brokers[conn.master], master.Lost(link=conn.link))
                        break
            case slave.Send():
                for conn in self.connections:
                    if (conn.slave, conn.number) == (broker.id, effect.connection):
                        conn.up.append(effect.packet)
            case slave.Truncate():
                if effect.end < len(log.data):
                    self.note("cut")
                log.data = log.data[: effect.end]
                log.synced = min(log.synced, effect.end)
                self.tick_crash()
                log.saved = effect.epochs
                self.to_slave(broker, effect.done)
            case slave.Append():
                if effect.epochs is not None:
                    log.saved = effect.epochs
                    self.tick_crash()
                assert effect.start == len(log.data) or not effect.data
                log.data += effect.data
                self.tick_crash()
                for send in effect.then:
                    self.do_slave(broker, send)
            case slave.Sync():
                broker.syncs.append(effect.done)
            case slave.Trace():
                self.note(effect.name + ": " + "".join(c for c in effect.why if not c.isdigit()))
            case slave.Confirm():
                assert effect.offset <= len(log.data)

    def do_master(self, broker: Broker, effect: master.Effect) -> None:
        match effect:
            case master.SendLog():
                data = broker.log.data[effect.start : effect.start + effect.size]
                assert len(data) == effect.size
                for conn in self.links_of(broker, effect.link):
                    conn.down.append(
                        wire.Transfer(
                            start=effect.start,
                            epoch=effect.epoch,
                            epoch_start=effect.epoch_start,
                            confirm_offset=effect.confirm_offset,
                            data=data,
                        )
                    )
            case master.Reply():
                for conn in self.links_of(broker, effect.link):
                    conn.down.append(effect.packet)
            case master.Close():
                for conn in self.links_of(broker, effect.link):
                    self.connections.remove(conn)
                    lost = slave.Lost(connection=conn.number, why="closed")
                    self.to_slave(self.brokers[conn.slave], lost)
            case master.Acknowledge():
                at, record = broker.waiting.pop(effect.ticket)
                self.acked[record] = at
                self.note("acknowledged")
            case master.GiveUp():
                broker.waiting.pop(effect.ticket, None)
            case ProposeSyncStateSet():
                self.requests.append((broker.id, effect))
            case master.Trace():
                self.note(effect.name + ": " + "".join(c for c in effect.why if not c.isdigit()))

    def links_of(self, broker: Broker, link: int) -> list[Connection]:
        return [c for c in self.connections if (c.master, c.link) == (broker.id, link)]

    # What else can happen.

    def send(self, broker: Broker) -> None:
        core = broker.as_master
        if core is None or not core.leading:
            return
        if core.in_sync_count < self.settings.min_in_sync_replicas:
            self.note("send refused")
            return
        self.records += 1
        text = f"{self.records}by{broker.id}".encode() + bytes(self.rng.randint(0, 30))
        record = bytes([len(text) + 1]) + text
        at = len(broker.log.data)
        broker.log.data += record
        self.written(broker)
        ticket = self.records
        broker.waiting[ticket] = (at, record)
        end = PhyOffset(at + len(record))
        self.to_master(broker, master.Await(ticket=ticket, master_epoch=core.master_epoch, end=end))

    def written(self, broker: Broker) -> None:
        end = PhyOffset(len(broker.log.data))
        counted = PhyOffset(broker.log.synced) if self.durable else end
        if broker.as_master is not None and broker.as_master.leading:
            self.to_master(broker, master.Written(end=end, counted=counted))

    def sync(self, broker: Broker) -> None:
        """One sync of a broker ends: a slave's oldest, or that of the writer."""
        if broker.syncs:
            done = broker.syncs.pop(0)
            if broker.as_slave is not None and done.connection == broker.as_slave.connection:
                broker.log.synced = max(broker.log.synced, min(done.end, len(broker.log.data)))
            self.to_slave(broker, done)
        elif broker.alive:
            broker.log.synced = len(broker.log.data)
            self.written(broker)

    def dial(self, broker: Broker) -> None:
        if not broker.dials:
            return
        dial = broker.dials.pop(0)
        peer = self.brokers[int(dial.address)]
        if not peer.alive or peer is broker:
            self.to_slave(broker, slave.Lost(connection=dial.connection, why="refused"))
            return
        self.links += 1
        conn = Connection(broker.id, dial.connection, peer.id, self.links)
        self.connections.append(conn)
        self.to_master(peer, master.Accepted(link=conn.link))
        self.to_slave(broker, slave.Connected(connection=dial.connection))

    def deliver(self, conn: Connection, *, up: bool) -> None:
        if up and conn.up:
            event = master.Received(link=conn.link, packet=conn.up.popleft())
            self.to_master(self.brokers[conn.master], event)
        elif not up and conn.down:
            packet = conn.down.popleft()
            self.to_slave(
                self.brokers[conn.slave], slave.Received(connection=conn.number, packet=packet)
            )

    def timeout(self, broker: Broker) -> None:
        if broker.as_slave is None or broker.as_master is None:
            return
        due = broker.as_slave.next_deadline_ns()
        if due is not None and due <= self.now:
            self.to_slave(broker, slave.Timeout())
        if broker.as_master is not None:
            due = broker.as_master.next_deadline_ns()
            if due is not None and due <= self.now:
                self.to_master(broker, master.Timeout())

    # Promises.

    def check(self) -> None:
        ends = {b.id: len(b.log.data) for b in self.brokers.values()}
        for one in self.brokers.values():
            for other in self.brokers.values():
                if one.id < other.id:
                    self.check_agreement(one.log, other.log)
        for record, at in self.acked.items():  # S6, S9
            for member in self.members:
                got = self.brokers[member].log.data[at : at + len(record)]
                assert got == record, f"{record!r} at {at} is not on {member} of {self.members}"
        chief = self.brokers.get(self.chief)
        if chief is not None and chief.as_master is not None and self.settings.all_ack:
            core = chief.as_master
            if core.leading and core.master_epoch == self.epoch:  # S10
                for member in self.members:
                    assert core.confirm <= ends[member], (core.confirm, member, ends)

    def check_agreement(self, one: Log, other: Log) -> None:
        """S8: logs with an equal entry are equal to the smaller end of that epoch."""
        ends = []
        for at, entry in enumerate(one.saved):
            if entry in other.saved:
                there = other.saved.index(entry)
                ends.append(
                    min(
                        policy.end_of(one.saved, at, PhyOffset(len(one.data))),
                        policy.end_of(other.saved, there, PhyOffset(len(other.data))),
                    )
                )
        for end in ends:
            assert one.data[:end] == other.data[:end], (one.saved, other.saved, end)

    # A random life.

    def act(self, *, power: bool) -> None:
        rng = self.rng
        broker = self.brokers[rng.randint(1, self.size)]
        kind = rng.choices(*zip(*ACTIONS, strict=True))[0]
        if kind == "deliver":
            full = [(c, up) for c in self.connections for up in (True, False)
                    if (c.up if up else c.down)]  # fmt: skip
            if full:
                conn, up = rng.choice(full)
                self.deliver(conn, up=up)
        elif kind == "dial":
            for each in self.brokers.values():
                self.dial(each)
        elif kind == "send":
            self.send(broker)
        elif kind == "sync":
            self.sync(broker)
        elif kind == "timeout":
            self.now += rng.choice((SECOND // 1000, SECOND // 5, 2 * SECOND))
            for each in self.brokers.values():
                self.timeout(each)
        elif kind == "tell":
            self.tell(broker)
        elif kind == "decide" and self.requests:
            answers = ("told", "told", "told", "lost-answer", "lost-request", "late-request")
            self.decide(rng.choice(self.requests), rng.choice(answers))
        elif kind == "cut" and self.connections:
            self.cut(rng.choice(self.connections))
        elif kind == "kill" and broker.alive:
            self.kill(broker, power=power and rng.random() < 0.5)
        elif kind == "start" and not broker.alive:
            self.start(broker)
        elif kind == "crash":
            self.crash_in = rng.randint(1, 12)
        elif kind == "elect":
            self.election()
        self.check()

    def election(self) -> None:
        candidates = sorted(self.members) if self.epoch else sorted(self.brokers)
        alive = [c for c in candidates if self.brokers[c].alive]
        if alive:
            self.elect(self.rng.choice(alive))

    def heal(self) -> None:
        """Everybody lives, the last master still sends, then all is still."""
        self.crash_in, self.healed = -1, True
        for request in list(self.requests):
            self.decide(request, "lost-request")
        for broker in self.brokers.values():
            if not broker.alive:
                self.start(broker)
        core = self.brokers[self.chief].as_master if self.chief else None
        if core is None or not core.leading or core.master_epoch != self.epoch:
            self.election()
        for _ in range(60):
            self.now += SECOND
            for broker in self.brokers.values():
                self.tell(broker)
                self.timeout(broker)
            self.quiet()

    def quiet(self) -> None:
        """Deliver whatever is on its way."""
        for _ in range(100_000):
            moved = False
            for broker in self.brokers.values():
                while broker.dials:
                    self.dial(broker)
                    moved = True
                while broker.syncs:
                    self.sync(broker)
                    moved = True
            for conn in list(self.connections):
                for up in (True, False):
                    if conn.up if up else conn.down:
                        self.deliver(conn, up=up)
                        moved = True
            for request in list(self.requests):
                self.decide(request, "told")
                moved = True
            if not moved:
                return
        raise AssertionError("never quiet")


ACTIONS: list[tuple[Any, int]] = [
    ("deliver", 400), ("dial", 60), ("send", 120), ("sync", 120), ("timeout", 60), ("tell", 80),
    ("decide", 50), ("cut", 4), ("kill", 3), ("start", 10), ("crash", 3), ("elect", 4),
]  # fmt: skip
