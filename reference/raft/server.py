"""A Raft node's shell: its tasks, its disk in order, its messages over a port of Raft's own.

Effects are performed in order; those that need the disk go through one queue, so that writes reach
it in the order in which the core decided, and each takes along the messages that may leave only
after it. Several writes that wait together become one record and one sync.

A proposal ends in one of three ways: applied, refused because this node does not lead, or unknown,
when leadership was lost while it was on its way. Units: seconds and ns.
"""

import asyncio
import contextlib
from typing import Any, Protocol

from maxq.reference.bounds import Bounds
from maxq.reference.host import Host
from maxq.reference.node import now_ns
from maxq.reference.raft import handshake
from maxq.reference.raft import message as wire
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
    Trace,
)
from maxq.reference.raft.handshake import Hello
from maxq.reference.raft.message import Entry, Install
from maxq.reference.raft.soundness import complaint
from maxq.reference.raft.storage import CorruptRaftLog, Snapshot, Storage
from maxq.reference.raft.watermark import Reached, Watermark
from maxq.reference.records import RemoteProtocolError, invariant, some
from maxq.reference.rpc import Connection, Pool, Reply, spawn
from maxq.reference.wire.codes import RAFT, ResponseCode
from maxq.reference.wire.frame import Frame

COMPACT_BYTES = 1 << 20  # of log file
SNAPSHOT_S = 3600.0
WAIT_S = 5.0
PROBE_ELECTIONS = 2  # election times after which a connection in use is asked whether it is one


class NotLeader(Exception):
    """This node cannot serve it; `leader` is the id of who could, if known."""

    def __init__(self, leader: str | None) -> None:
        super().__init__(f"leader is {leader or 'not known'}")
        self.leader = leader


class OutcomeUnknown(Exception):
    """Leadership was lost, or time ran out, while a proposal was on its way."""


class StateMachine(Protocol):
    """What is replicated."""

    def apply(self, index: int, command: bytes) -> object:
        """Change the state by a committed command; the same on every node."""
        ...

    def snapshot(self) -> bytes: ...

    def restore(self, data: bytes) -> None: ...

    def refuses(self, command: bytes) -> str:
        """Why a command cannot be applied at all; empty if it can, whatever it then does."""
        ...

    def refuses_snapshot(self, data: bytes) -> str:
        """Why a snapshot cannot be restored; empty if it can."""
        ...


class Raft:
    """One node of a Raft group.

    Args:
        host: disk, randomness, log.
        folder: of the Raft files.
        group: the group's name.
        me: this node's id.
        peers: id -> ``host:port`` of all nodes' Raft ports, this one included.
        machine: the replicated state.
        tasks: of the connections to peers.
        bounds: what peers can make the node hold, if it shares them with other ports.
        timing: of elections.
        compact_bytes: size of the log file at which a snapshot is taken.
        snapshot_s: so long after one the next is taken, with whatever is written then (s).
    """

    def __init__(
        self,
        host: Host,
        folder: str,
        *,
        group: str,
        me: str,
        peers: dict[str, str],
        machine: StateMachine,
        tasks: asyncio.TaskGroup,
        bounds: Bounds[Connection] | None = None,
        timing: Timing | None = None,
        compact_bytes: int = COMPACT_BYTES,
        snapshot_s: float = SNAPSHOT_S,
    ) -> None:
        self._host = host
        self._me = me
        self._peers = dict(peers)
        self._machine = machine
        self._pool = Pool(tasks, bounds=bounds, greet=self.greeting)
        self._timing = timing or Timing()
        self._compact_bytes = compact_bytes
        self._snapshot_s = snapshot_s
        self._snapshot_at = 0.0  # the loop's time, from when the log is loaded
        self._name = group
        self._known: dict[Connection, str] = {}  # who speaks, on each connection to this node
        self._storage = Storage(host.disk, folder)
        self._watermark = Watermark(host.disk, f"{folder}/watermark", group=group, node=me)
        self._end = 0  # the last index that is on the disk
        self._core: Core | None = None
        self._applied = 0
        self._group: asyncio.TaskGroup | None = None
        self._probed_ns: dict[str, int] = {}  # peer -> when its connection was asked last
        self._writes: list[Persist | Restore] = []
        self._wake_writer: asyncio.Future[None] | None = None
        self._wake_timer: asyncio.Future[None] | None = None
        self._proposals: dict[int, tuple[int, asyncio.Future[object]]] = {}  # index -> term
        self._tickets: dict[int, asyncio.Future[int]] = {}
        self._last_ticket = 0
        self._appliers: list[tuple[int, asyncio.Future[None]]] = []  # wait for an applied index

    # What the node asks.

    @property
    def core(self) -> Core:
        return some(self._core, "raft is loaded before it is used")

    @property
    def ready(self) -> bool:
        """Whether this node leads and knows what is committed."""
        return self._core is not None and self.core.ready and self._applied >= self._led_since()

    def _led_since(self) -> int:
        return self.core.led_since_index

    @property
    def leader(self) -> str | None:
        """Id of the leader as far as this node knows."""
        return None if self._core is None else self.core.leader

    async def load(self) -> None:
        """Read the files.

        Raises:
            CorruptRaftLog: damage, or a loss that no other node can make good.
            ForeignRaftLog: the files are another group's, or another node's.
        """
        self._snapshot_at = asyncio.get_running_loop().time()
        term, vote, log, snapshot = await self._storage.load()
        lost = self._lost(term, log.last_index)
        self._end = log.last_index
        if snapshot is not None:
            self._machine.restore(snapshot.data)
        self._applied = log.snapshot_index
        self._core = Core(
            me=self._me,
            peers=tuple(sorted(self._peers)),
            rng=self._host.rng,
            timing=self._timing,
            log=log,
            term=term,
            vote=vote,
            lost=lost,
        )

    def _lost(self, term: int, index: int) -> Reached | None:
        """What the log had reached, if it has not reached it any more."""
        reached = self._watermark.load()
        if reached is None or (term, index) >= (reached.term, reached.index):
            return None
        why = f"the log ends in term {term} at entry {index}, and had reached {reached}"
        self._host.log("raft.log.lost", why=why)
        if len(self._peers) == 1:
            raise CorruptRaftLog(
                f"{self._storage.log_path}: {why}; no other node has what is lost. Restore the "
                "file, or remove the watermark beside it to go on with what is left"
            )
        return reached

    async def run(self) -> None:
        """Take part until cancelled."""
        self.core.start(now_ns())
        async with asyncio.TaskGroup() as group:
            self._group = group
            group.create_task(self._write_forever())
            group.create_task(self._tick_forever())

    async def propose(self, command: bytes) -> object:
        """Replicate a command; returns what applying it returned.

        Raises:
            NotLeader: certainly not replicated.
            OutcomeUnknown: it may be applied, now, later or never.
        """
        accepted: list[Accepted] = []
        for effect in self._step(Propose(data=command)):
            if isinstance(effect, NotLeading):
                raise NotLeader(effect.leader)
            if isinstance(effect, Accepted):
                accepted.append(effect)
        place = accepted[0]
        future = self._proposals.get(place.index, (0, _future()))[1]
        try:
            async with asyncio.timeout(WAIT_S):
                return await future
        except TimeoutError:
            raise OutcomeUnknown("not committed in time") from None
        finally:
            self._proposals.pop(place.index, None)

    async def read(self) -> None:
        """Return when this node's state is at least as new as any answer given before the call.

        Raises:
            NotLeader: it does not lead, or cannot prove that it does.
        """
        self._last_ticket += 1
        ticket = self._last_ticket
        future: asyncio.Future[int] = _future()
        self._tickets[ticket] = future
        try:
            self._step(Read(ticket=ticket))
            async with asyncio.timeout(WAIT_S):
                await self._until_applied(await future)
        except TimeoutError:
            raise NotLeader(None) from None
        finally:
            self._tickets.pop(ticket, None)

    def greeting(self, address: str) -> Frame:
        """The first frame on each connection of the pool; `address` is a peer's."""
        receiver = next(peer for peer, at in self._peers.items() if at == address)
        hello = Hello(group=self._name, sender=self._me, receiver=receiver)
        return Frame(code=RAFT, body=handshake.encode(hello))

    def handle(self, request: Frame, connection: Connection) -> Reply:
        """Take a peer's message (request `RAFT`, one-way), or answer an empty one. Who does not
        begin with its greeting, or whose message is not sound, is cut off."""
        known = self._known.get(connection)
        if known is not None and not request.body:
            return request.answer(ResponseCode.SUCCESS)
        try:
            body = request.body or b""
            why = self._meet(body, connection) if known is None else self._take(body, known)
        except RemoteProtocolError as error:
            why = str(error)
        if why:
            self._host.log("raft.peer.refused", peer=connection.remote, why=why)
            connection.close()
        return None

    def _meet(self, body: bytes, connection: Connection) -> str:
        """Take a greeting; why not, if it is none of a peer."""
        hello = handshake.decode(body)
        why = handshake.complaint(
            hello, group=self._name, me=self._me, peers=self._peers, remote=connection.remote
        )
        if not why:
            self._known[connection] = hello.sender
            connection.on_close(self._known.__delitem__)
        return why

    def _take(self, body: bytes, peer: str) -> str:
        """Step a peer's message; why not, if it is not sound."""
        received = wire.decode(body)
        sender = _sender(received)
        if sender != peer:
            return f"{peer!r} speaks for {sender!r}"
        machine = self._machine
        why = complaint(
            self.core, received, entry=machine.refuses, snapshot=machine.refuses_snapshot
        )
        if not why:
            self._step(Received(message=received))
        return why

    def close(self) -> None:
        """Release the files."""
        self._pool.close()
        self._storage.close()
        self._watermark.close()

    # The core and its effects.

    def _step(self, event: Event) -> list[Effect]:
        before = self.core.next_deadline_ns()
        effects = self.core.step(now_ns(), event)
        for effect in effects:
            self._perform(effect)
        if self.core.next_deadline_ns() < before:
            _wake(self._wake_timer)
        if self.core.role != "leader":
            self._give_up_proposals()
        return effects

    def _give_up_proposals(self) -> None:
        """Leadership is lost: what was on its way may be committed by the next leader, or not."""
        for _, waiting in self._proposals.values():
            if not waiting.done():
                waiting.set_exception(OutcomeUnknown("leadership was lost"))

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Send():
                self._send(effect.to, effect.message)
            case SendSnapshot():
                self._send_snapshot(effect)
            case Persist() | Restore():
                if isinstance(effect, Restore):
                    self._restore(effect)
                self._writes.append(effect)
                _wake(self._wake_writer)
            case Apply():
                self._apply(effect.entries)
            case Accepted():
                self._proposals[effect.index] = (effect.term, _future())
            case NotLeading():
                self._refuse_read(effect)
            case ReadReady():
                waiting = self._tickets.get(effect.ticket)
                if waiting is not None and not waiting.done():
                    waiting.set_result(effect.index)
            case Trace():
                self._host.log(effect.name, why=effect.why, term=self.core.term)

    def _refuse_read(self, effect: NotLeading) -> None:
        waiting = self._tickets.get(effect.ticket or 0)
        if waiting is not None and not waiting.done():
            waiting.set_exception(NotLeader(effect.leader))

    def _send(self, to: str, message: wire.Message) -> None:
        frame = Frame(code=RAFT, body=wire.encode(message))
        address, now = self._peers[to], now_ns()
        self._pool.post(address, frame)
        wait_ns = PROBE_ELECTIONS * self._timing.election_ns
        if self._group is not None and now - self._probed_ns.get(to, -wait_ns) >= wait_ns:
            self._probed_ns[to] = now
            spawn(self._group, self._probe(address, wait_ns / 1e9))

    async def _probe(self, address: str, timeout_s: float) -> None:
        """Ask for an answer, so that a connection without one ends and the next message dials anew.

        No other message is answered on its own connection, and nothing ends one whose peer, or
        this node, has another address by now: its bytes reach no node, for as long as a kernel has
        patience, a quarter of an hour.
        """
        with contextlib.suppress(OSError):
            await self._pool.call(address, Frame(code=RAFT), timeout_s=timeout_s)

    def _send_snapshot(self, effect: SendSnapshot) -> None:
        snapshot = self._storage.read_snapshot()
        if snapshot is not None:
            install = Install(
                term=effect.term,
                leader=self._me,
                index=snapshot.index,
                index_term=snapshot.term,
                data=snapshot.data,
                round=effect.round,
            )
            self._send(effect.to, install)

    def _restore(self, effect: Restore) -> None:
        self._machine.restore(effect.snapshot.data)
        self._applied = effect.snapshot.index
        self._applied_to()

    def _apply(self, entries: tuple[Entry, ...]) -> None:
        for entry in entries:
            invariant(entry.index == self._applied + 1, "entries are applied in order",
                      entry=entry.index, applied=self._applied)  # fmt: skip
            result = self._machine.apply(entry.index, entry.data) if entry.data else None
            self._applied = entry.index
            term, waiting = self._proposals.get(entry.index, (0, None))
            if waiting is None or waiting.done():
                continue
            if term == entry.term:
                waiting.set_result(result)
            else:
                waiting.set_exception(OutcomeUnknown("another leader's entry took its place"))
        self._applied_to()

    def _applied_to(self) -> None:
        for index, waiting in self._appliers:
            if index <= self._applied and not waiting.done():
                waiting.set_result(None)
        self._appliers = [(i, w) for i, w in self._appliers if i > self._applied]

    async def _until_applied(self, index: int) -> None:
        if index > self._applied:
            waiting: asyncio.Future[None] = _future()
            self._appliers.append((index, waiting))
            await waiting

    # Tasks.

    async def _tick_forever(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            left_ns = self.core.next_deadline_ns() - now_ns()
            if left_ns > 0:
                self._wake_timer = loop.create_future()
                timer = loop.call_later(left_ns / 1e9, _wake, self._wake_timer)
                await self._wake_timer
                timer.cancel()
            else:
                self._step(Timeout())
                await asyncio.sleep(0)  # a deadline that stays due must not starve the loop

    async def _write_forever(self) -> None:
        while True:
            if not self._writes:
                self._wake_writer = asyncio.get_running_loop().create_future()
                await self._wake_writer
            batch, self._writes = self._writes, []
            for write in merged(batch):
                await self._write(write)
            if self._is_long() and not self._writes:
                await self._compact()

    def _is_long(self) -> bool:
        """Whether a snapshot is due, by the size of the log or by the time since the last one."""
        since_s = asyncio.get_running_loop().time() - self._snapshot_at
        return self._storage.log_bytes > self._compact_bytes or since_s >= self._snapshot_s

    async def _write(self, write: Persist | Restore) -> None:
        if isinstance(write, Restore):
            s = write.snapshot
            snapshot = Snapshot(index=s.index, term=s.index_term, data=s.data)
            await self._storage.compact(snapshot, s.term, write.vote, self.core.log)
            self._note(s.term, self.core.log.last_index)
        else:
            await self._storage.append(write.term, write.vote, write.entries)
            self._note(write.term, write.entries[-1].index if write.entries else self._end)
        for send in write.then:
            self._send(send.to, send.message)
        if isinstance(write, Persist) and write.entries:
            last = write.entries[-1]
            self._step(Persisted(index=last.index, term=last.term))

    def _note(self, term: int, index: int) -> None:
        self._end = index
        try:
            self._watermark.note(term, index)
        except OSError as error:  # it may be behind
            self._host.log("raft.watermark.failed", why=str(error))

    async def _compact(self) -> None:
        """Take a snapshot of what is applied, and shorten the log. Nothing else is written
        meanwhile, since this is the writer."""
        core, index = self.core, self._applied
        term = core.log.term_at(index)
        if term is None or index <= core.log.snapshot_index:
            return
        self._snapshot_at = asyncio.get_running_loop().time()
        snapshot = Snapshot(index=index, term=term, data=self._machine.snapshot())
        await self._storage.compact(snapshot, core.term, core.vote, core.log)
        self._step(Compacted(index=index))


def merged(writes: list[Persist | Restore]) -> list[Persist | Restore]:
    """Make one write of neighbours that only add up: the later term and vote hold, entries follow
    on, messages go after all of it."""
    out: list[Persist | Restore] = []
    for write in writes:
        last = out[-1] if out else None
        if isinstance(last, Persist) and isinstance(write, Persist) and _follows(last, write):
            out[-1] = Persist(
                term=write.term,
                vote=write.vote,
                entries=(*last.entries, *write.entries),
                then=(*last.then, *write.then),
            )
        else:
            out.append(write)
    return out


def _follows(a: Persist, b: Persist) -> bool:
    return not a.entries or not b.entries or b.entries[0].index == a.entries[-1].index + 1


def _sender(message: wire.Message) -> str:
    match message:
        case wire.Vote():
            return message.candidate
        case wire.VoteReply():
            return message.voter
        case wire.Append() | wire.Install():
            return message.leader
        case wire.AppendReply():
            return message.follower


def _future() -> "asyncio.Future[Any]":
    return asyncio.get_running_loop().create_future()


def _wake(waiting: "asyncio.Future[None] | None") -> None:
    if waiting is not None and not waiting.done():
        waiting.set_result(None)
