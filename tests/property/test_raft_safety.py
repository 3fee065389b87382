"""Raft's safety, by random schedules over the cores alone: messages are lost, doubled and late,
nodes crash and lose what was not synced, disks are slow, snapshots are taken at any time.

Invariants are checked after every step: one leader a term, what is committed stays and is the same
everywhere, an acknowledged entry survives as long as a majority of disks does.
"""

import copy
from functools import partial
from random import Random

import pytest

from maxq.reference.raft.core import (
    Accepted,
    Apply,
    Compacted,
    Core,
    Effect,
    Event,
    NotLeading,
    Persist,
    Persisted,
    Propose,
    Read,
    ReadReady,
    Received,
    Restore,
    Send,
    SendSnapshot,
    Timeout,
    Timing,
)
from maxq.reference.raft.log import Log
from maxq.reference.raft.message import (
    Append,
    AppendReply,
    Entry,
    Install,
    Message,
    Vote,
    VoteReply,
)

TIMING = Timing(election_ns=1000, heartbeat_ns=200)


def draw(seed: float, name: str) -> Random:
    """Randomness of a node by name."""
    return Random(f"{seed}/{name}")


class Disk:
    """What a crash leaves: term, vote, log, and the applied state with its index."""

    def __init__(self) -> None:
        self.term, self.vote = 0, ""
        self.log = Log()
        self.state: tuple[bytes, ...] = ()  # at the snapshot

    def take(self, write: Persist | Restore) -> None:
        self.vote = write.vote
        if isinstance(write, Restore):
            self.term = max(self.term, write.snapshot.term)
            self.log.reset(write.snapshot.index, write.snapshot.index_term)
            self.state = decode(write.snapshot.data)
            return
        self.term = write.term
        for e in write.entries:
            if e.index > self.log.snapshot_index:
                assert e.index <= self.log.last_index + 1
                del self.log.entries[e.index - self.log.snapshot_index - 1 :]
                self.log.entries.append(e)


def decode(data: bytes) -> tuple[bytes, ...]:
    return tuple(data.split(b",")) if data else ()


class Group:
    """Cores, their disks, and everything that goes wrong between them."""

    def __init__(self, size: int, seed: int) -> None:
        self.rng = Random(seed)
        self.names = [f"n{i}" for i in range(size)]
        self.disks = {n: Disk() for n in self.names}
        self.now = 0
        self.wire: list[tuple[str, Message]] = []
        self.writes: dict[str, list[Persist | Restore]] = {n: [] for n in self.names}
        self.leaders: dict[int, str] = {}
        self.committed: list[bytes] = []  # by index - 1
        self.applied: dict[str, list[bytes]] = {}
        self.acknowledged: dict[int, bytes] = {}
        self.proposed: dict[tuple[int, int], bytes] = {}
        self.reads: dict[int, int] = {}  # ticket -> committed when asked
        self.cores: dict[str, Core] = {}
        self.counter = 0
        self.cut: set[tuple[str, str]] = set()  # links that carry nothing now
        for n in self.names:
            self.boot(n)

    def boot(self, name: str) -> None:
        disk = self.disks[name]
        self.writes[name] = []
        self.applied[name] = list(disk.state)
        core = Core(
            me=name,
            peers=tuple(self.names),
            rng=partial(draw, self.rng.random()),
            timing=TIMING,
            log=copy.deepcopy(disk.log),
            term=disk.term,
            vote=disk.vote,
        )
        core.start(self.now)
        self.cores[name] = core

    def step(self, name: str, event: Event) -> list[Effect]:
        effects = self.cores[name].step(self.now, event)
        for effect in effects:
            self.perform(name, effect)
        self.check(name)
        return effects

    def perform(self, name: str, effect: Effect) -> None:
        match effect:
            case Send():
                self.wire.append((effect.to, effect.message))
            case SendSnapshot():
                disk = self.disks[name]
                install = Install(
                    term=effect.term,
                    leader=name,
                    index=disk.log.snapshot_index,
                    index_term=disk.log.snapshot_term,
                    data=b",".join(disk.state),
                    round=effect.round,
                )
                self.wire.append((effect.to, install))
            case Persist() | Restore():
                self.writes[name].append(effect)
                if isinstance(effect, Restore):
                    self.applied[name] = list(decode(effect.snapshot.data))
            case Apply():
                self.apply(name, effect.entries)
            case Accepted():
                pass
            case ReadReady():
                assert effect.index >= self.reads.pop(effect.ticket), "a stale read"
            case _:
                pass

    def apply(self, name: str, entries: tuple[Entry, ...]) -> None:
        for e in entries:
            assert e.index == len(self.applied[name]) + 1
            content = e.data or b"-"
            self.applied[name].append(content)
            if e.index <= len(self.committed):
                assert self.committed[e.index - 1] == content, "two entries committed at one index"
            else:
                self.committed.append(content)
            if self.proposed.get((e.index, e.term)) == content:
                self.acknowledged[e.index] = content

    def check(self, name: str) -> None:
        core = self.cores[name]
        if core.role == "leader":
            assert self.leaders.setdefault(core.term, name) == name, "two leaders in a term"
        for index, content in self.acknowledged.items():
            assert self.committed[index - 1] == content

    # What may happen.

    def propose(self, name: str) -> None:
        self.counter += 1
        data = b"%d" % self.counter
        for effect in self.step(name, Propose(data=data)):
            if isinstance(effect, Accepted):
                self.proposed[effect.index, effect.term] = data

    def read(self, name: str) -> None:
        self.counter += 1
        self.reads[self.counter] = len(self.committed)
        for effect in self.step(name, Read(ticket=self.counter)):
            if isinstance(effect, NotLeading) and effect.ticket == self.counter:
                self.reads.pop(self.counter, None)

    def deliver(self) -> None:
        if not self.wire:
            return
        at = self.rng.randrange(len(self.wire))
        to, message = self.wire[at] if self.rng.random() < 0.1 else self.wire.pop(at)
        if (sender(message), to) not in self.cut:
            self.step(to, Received(message=message))

    def write(self, name: str) -> None:
        if not self.writes[name]:
            return
        effect = self.writes[name].pop(0)
        self.disks[name].take(effect)
        for send in effect.then:
            self.wire.append((send.to, send.message))
        if isinstance(effect, Persist) and effect.entries:
            last = effect.entries[-1]
            self.step(name, Persisted(index=last.index, term=last.term))

    def compact(self, name: str) -> None:
        if self.writes[name]:
            return
        core, disk = self.cores[name], self.disks[name]
        index = len(self.applied[name])
        if index <= disk.log.snapshot_index or core.log.term_at(index) is None:
            return
        if disk.log.term_at(index) is None:
            return
        disk.state = tuple(self.applied[name])
        disk.log.compact(index)
        self.step(name, Compacted(index=index))

    def crash(self, name: str) -> None:
        self.boot(name)

    def partition(self) -> None:
        """Cut some links, each direction for itself; or heal them all."""
        links = [(a, b) for a in self.names for b in self.names if a != b]
        share = self.rng.choice((0.0, 0.0, 0.2, 0.5))
        self.cut = {link for link in links if self.rng.random() < share}

    def depose(self, name: str) -> None:
        """Cut one node off, and let the others grow impatient."""
        self.cut = {(a, b) for a in self.names for b in self.names if name in (a, b)}
        for other in self.names:
            if other != name:
                self.cores[other].heard_ns = -TIMING.election_ns
                self.cores[other].deadline_ns = self.now

    def tick(self, longest: int = 120) -> None:
        self.now += self.rng.randrange(1, longest)
        for name in self.names:
            if self.cores[name].next_deadline_ns() <= self.now:
                self.step(name, Timeout())

    def settle(self) -> None:
        """Everything works from here on: there must be progress."""
        self.cut = set()
        for _ in range(6000):
            for name in self.names:
                while self.writes[name]:
                    self.write(name)
            batch, self.wire = self.wire, []
            for to, message in batch:
                self.step(to, Received(message=message))
            leading = [self.cores[n] for n in self.names if self.cores[n].ready]
            ends = {core.log.last_index for core in leading}
            if leading and {len(a) for a in self.applied.values()} == ends:
                return
            self.tick()
        raise AssertionError("no leader, or not all caught up, although everything works")


def sender(message: Message) -> str:
    match message:
        case Vote():
            return message.candidate
        case VoteReply():
            return message.voter
        case Append() | Install():
            return message.leader
        case AppendReply():
            return message.follower


def chaos(group: Group, steps: int) -> None:
    """Random steps under a mix of faults that is drawn for this run, some of them off."""
    rng = group.rng
    acts = {
        "deliver": rng.choice((100, 200, 300)),
        "write": rng.choice((30, 80, 150)),
        "tick": rng.choice((10, 20, 40)),
        "propose": rng.choice((5, 20)),
        "read": 5,
        "compact": rng.choice((0, 1, 4)),
        "crash": rng.choice((0, 1, 4)),
        "partition": rng.choice((0, 1, 3)),
        "depose": rng.choice((0, 1, 3)),
    }
    longest = rng.choice((60, 100, 200))
    for act in rng.choices(list(acts), list(acts.values()), k=steps):
        leading = [n for n in group.names if group.cores[n].role == "leader"]
        name = rng.choice(leading or group.names if rng.random() < 0.8 else group.names)
        match act:
            case "deliver":
                group.deliver()
            case "tick":
                group.tick(longest)
            case "partition":
                group.partition()
            case "depose":
                group.depose(name)
            case "write":
                group.write(rng.choice(group.names))
            case _:
                getattr(group, act)(name)


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("block", range(5))
def test_what_is_committed_stays(size: int, block: int) -> None:
    """Each case is ten runs."""
    for seed in range(block * 10, block * 10 + 10):
        group = Group(size, seed * 31 + size)
        chaos(group, 4000)
        group.settle()
        before = len(group.acknowledged)
        leader = next(n for n in group.names if group.cores[n].ready)
        group.propose(leader)
        group.settle()
        assert len(group.acknowledged) == before + 1, "a healthy group commits"
        states = list(group.applied.values())
        assert all(s == states[0] for s in states)
        assert states[0] == group.committed
