"""Raft, as a pure core: who leads, what is in the log, what is committed.

`step(now_ns, event)` changes the state and says what should happen; it does nothing itself.

Two rules keep promises behind their writes. A message that speaks of something durable (a vote, an
acknowledged entry) rides inside the `Persist` that makes it durable. And the leader counts itself
for an entry only when `Persisted` comes back: its own disk is one of the majority.

The log here runs ahead of the disk. That is safe because all writes of a node are made in order:
what is visible to others has been persisted, or rides behind it.

Extensions over the paper's core: pre-vote (a node that cannot win does not disturb), a leader that
hears of no majority for an election time-out steps down, reads by read index, snapshots. A node
that has lost a part of its log, with votes and entries that it had answered for, neither votes nor
stands until a leader has given it all that may have been committed with its help.

Source: Ongaro and Ousterhout, "In Search of an Understandable Consensus Algorithm" (extended), and
Ongaro's thesis, 6.4 (read index) and 9.6 (pre-vote). Times are ns of this node's monotonic clock.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Literal, TypeAlias, assert_never

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
from maxq.reference.raft.quorum import is_majority, reached_by_majority
from maxq.reference.raft.watermark import Reached
from maxq.reference.records import Record, invariant

BATCH_ENTRIES_MAX = 256
RoleName = Literal["follower", "pre-candidate", "candidate", "leader"]


class Timing(Record):
    """Election after a silence of `election_ns` to twice that; heartbeats every `heartbeat_ns`."""

    election_ns: int = 1_000_000_000
    heartbeat_ns: int = 200_000_000


# Events.


class Received(Record):
    """A peer's message."""

    message: Message


class Timeout(Record):
    """`next_deadline_ns` has passed."""


class Propose(Record):
    """A command for the log."""

    data: bytes


class Read(Record):
    """A linearizable read; `ticket` comes back in `ReadReady`."""

    ticket: int


class Persisted(Record):
    """A `Persist` is durable up to this entry. It carries its term: the entry may have been
    replaced meanwhile, and then this proves nothing."""

    index: int
    term: int


class Compacted(Record):
    """A snapshot up to `index` is durable; entries up to it may go."""

    index: int


Event: TypeAlias = Received | Timeout | Propose | Read | Persisted | Compacted

# Effects.


class Send(Record):
    """A message for a peer."""

    to: str
    message: Message


class SendSnapshot(Record):
    """Send the newest snapshot to a peer, as `Install` of this term and round."""

    to: str
    term: int
    round: int


class Persist(Record):
    """Write term and vote, and entries in place of whatever the log holds from their first index
    on; sync; then send `then` and, if there are entries, step `Persisted`."""

    term: int
    vote: str
    entries: tuple[Entry, ...]
    then: tuple[Send, ...]


class Restore(Record):
    """Make a received snapshot durable, in place of the whole log, take its state; then send."""

    snapshot: Install
    vote: str
    then: tuple[Send, ...]


class Apply(Record):
    """Entries that are committed, in order."""

    entries: tuple[Entry, ...]


class Accepted(Record):
    """A proposal got this place. It may still lose it to another leader's entry."""

    index: int
    term: int


class NotLeading(Record):
    """A proposal or read that this node cannot serve; `leader` if it knows better."""

    leader: str | None
    ticket: int | None = None  # of a read


class ReadReady(Record):
    """This node led when `ticket` was asked: serve the read once `index` is applied."""

    ticket: int
    index: int


class Trace(Record):
    """A named fact."""

    name: str
    why: str = ""


Effect: TypeAlias = (
    Send | SendSnapshot | Persist | Restore | Apply | Accepted | NotLeading | ReadReady | Trace
)


@dataclass(slots=True)
class Follower:
    """What a leader knows of a peer."""

    next_index: int
    match_index: int = 0
    round: int = 0  # the newest broadcast that it answered
    heard_ns: int = 0


@dataclass(slots=True)
class Core:
    """One peer. `peers` are all of them, this one included; `rng` gives randomness by name."""

    me: str
    peers: tuple[str, ...]
    rng: Callable[[str], Random]
    timing: Timing
    log: Log
    term: int = 0
    vote: str = ""
    role: RoleName = "follower"
    leader: str | None = None
    commit: int = 0
    durable: int = 0  # last entry of this log that is on this disk
    votes: set[str] = field(default_factory=set)
    followers: dict[str, Follower] = field(default_factory=dict)
    round: int = 0
    reads: list[tuple[int, int]] = field(default_factory=list)  # ticket, round that proves it
    deadline_ns: int = 0
    spread: tuple[int, int] = (-1, 0)  # a term, and how much longer than others to wait in it (ns)
    heard_ns: int = 0  # when a leader spoke last
    led_since_index: int = 0  # the no-op of this leader's term
    lost: Reached | None = None  # what the log had reached before a part of it was lost

    def __post_init__(self) -> None:
        invariant(self.me in self.peers, "a peer is one of the peers", me=self.me)
        self.commit = self.log.snapshot_index
        self.durable = self.log.last_index

    @property
    def ready(self) -> bool:
        """Whether this node leads and has committed an entry of its term: only then does it know
        what is committed."""
        return self.role == "leader" and self.commit >= self.led_since_index

    def next_deadline_ns(self) -> int:
        return self.deadline_ns

    def start(self, now_ns: int) -> None:
        """Begin to wait for a leader; who is alone need not wait."""
        self._wait_for_leader(now_ns)
        if len(self.peers) == 1:
            self.deadline_ns = now_ns

    def step(self, now_ns: int, event: Event) -> list[Effect]:
        match event:
            case Received():
                return self._on_message(now_ns, event.message)
            case Timeout():
                return self._on_timeout(now_ns)
            case Propose():
                return self._on_propose(event)
            case Read():
                return self._on_read(event)
            case Persisted():
                return self._on_persisted(event)
            case Compacted():
                self.log.compact(event.index)
                return [Trace(name="raft.compacted", why=str(event.index))]
            case _:
                assert_never(event)

    # Time.

    def _wait_for_leader(self, now_ns: int) -> None:
        if self.spread[0] != self.term:
            # Drawn for the term: what happened in other terms, and how often, does not matter.
            drawn = self.rng(f"raft.election/{self.term}").random()
            self.spread = (self.term, int(self.timing.election_ns * drawn))
        self.deadline_ns = now_ns + self.timing.election_ns + self.spread[1]

    def _on_timeout(self, now_ns: int) -> list[Effect]:
        if now_ns < self.deadline_ns:
            return []  # something has happened since it was set
        if self.lost is not None:
            self._wait_for_leader(now_ns)
            return []
        if self.role != "leader":
            return self._campaign(now_ns, pre=True)
        fresh = {p for p, f in self.followers.items()
                 if now_ns - f.heard_ns < 2 * self.timing.election_ns}  # fmt: skip
        if not is_majority({self.me, *fresh}, self.peers):
            effects = self._step_down(now_ns, leader=None)
            return [*effects, Trace(name="raft.stepped-down", why="no majority answers")]
        self.deadline_ns = now_ns + self.timing.heartbeat_ns
        return self._broadcast()

    # Elections.

    def _campaign(self, now_ns: int, *, pre: bool) -> list[Effect]:
        self.leader = None
        self.votes = {self.me}
        self._wait_for_leader(now_ns)
        if pre:
            self.role = "pre-candidate"
        else:
            self.role = "candidate"
            self.term, self.vote = self.term + 1, self.me
        if is_majority(self.votes, self.peers):  # alone
            return self._won(now_ns) if not pre else self._campaign(now_ns, pre=False)
        ask = Vote(
            term=self.term + 1 if pre else self.term,
            candidate=self.me,
            last_index=self.log.last_index,
            last_term=self.log.last_term,
            pre=pre,
        )
        sends = tuple(Send(to=p, message=ask) for p in self.peers if p != self.me)
        trace = Trace(name="raft.campaign", why=f"{self.role} for term {ask.term}")
        # A pre-vote binds no node, so it need not wait for the disk.
        return [*sends, trace] if pre else [self._persist(then=sends), trace]

    def _on_vote(self, now_ns: int, m: Vote) -> list[Effect]:
        up_to_date = (m.last_term, m.last_index) >= (self.log.last_term, self.log.last_index)
        if m.pre:
            # Who leads, or heard a leader lately, does not help to unseat it.
            silent = now_ns - self.heard_ns >= self.timing.election_ns or self.leader is None
            granted = m.term > self.term and up_to_date and silent and self.role != "leader"
            granted = granted and self.lost is None
            reply = VoteReply(
                term=m.term if granted else self.term, voter=self.me, granted=granted, pre=True
            )
            return [Send(to=m.candidate, message=reply)]
        free = self.vote in ("", m.candidate) and self.role != "leader"
        granted = m.term == self.term and free and up_to_date and self.lost is None
        reply = VoteReply(term=self.term, voter=self.me, granted=granted, pre=False)
        if not granted:
            return [Send(to=m.candidate, message=reply)]
        self.vote, self.role = m.candidate, "follower"
        self._wait_for_leader(now_ns)
        return [self._persist(then=(Send(to=m.candidate, message=reply),))]

    def _on_vote_reply(self, now_ns: int, m: VoteReply) -> list[Effect]:
        wanted = ("pre-candidate", self.term + 1) if m.pre else ("candidate", self.term)
        if (self.role, m.term) != wanted or not m.granted:
            return []
        self.votes.add(m.voter)
        if not is_majority(self.votes, self.peers):
            return []
        return self._campaign(now_ns, pre=False) if m.pre else self._won(now_ns)

    def _won(self, now_ns: int) -> list[Effect]:
        invariant(self.vote == self.me, "a leader has its own vote", vote=self.vote)
        self.role, self.leader = "leader", self.me
        self.followers = {
            p: Follower(next_index=self.log.last_index + 1, heard_ns=now_ns)
            for p in self.peers
            if p != self.me
        }
        self.reads = []
        self.deadline_ns = now_ns + self.timing.heartbeat_ns
        noop = self.log.append(self.term, b"")
        self.led_since_index = noop.index
        trace = Trace(name="raft.leader", why=f"term {self.term}")
        return [self._persist(entries=(noop,)), *self._broadcast(), trace]

    def _step_down(self, now_ns: int, leader: str | None) -> list[Effect]:
        lost = [NotLeading(leader=leader, ticket=ticket) for ticket, _ in self.reads]
        self.reads = []
        self.role, self.leader = "follower", leader
        self._wait_for_leader(now_ns)
        return [*lost]

    # Messages.

    def _on_message(self, now_ns: int, m: Message) -> list[Effect]:
        effects: list[Effect] = []
        # A pre-vote, and a granted answer to one, speak of a term that no node has begun.
        speculative = isinstance(m, Vote | VoteReply) and m.pre
        if m.term > self.term and not (speculative and not _refused(m)):
            effects += self._step_down(now_ns, leader=None)
            self.term, self.vote = m.term, ""
            effects.append(self._persist())
        match m:
            case Vote():
                effects += self._on_vote(now_ns, m)
            case VoteReply():
                effects += self._on_vote_reply(now_ns, m)
            case Append() | Install():
                effects += self._on_leader(now_ns, m)
            case AppendReply():
                effects += self._on_append_reply(now_ns, m)
            case _:
                assert_never(m)
        return effects

    def _on_leader(self, now_ns: int, m: Append | Install) -> list[Effect]:
        if m.term < self.term:
            return [self._answer(m, accepted=False, index=0)]
        invariant(self.role != "leader", "one leader a term", term=m.term, other=m.leader)
        effects = self._step_down(now_ns, leader=m.leader)
        self.heard_ns = now_ns
        return effects + (self._on_append(m) if isinstance(m, Append) else self._on_install(m))

    def _on_append(self, m: Append) -> list[Effect]:
        agrees = self.log.term_at(m.previous_index) == m.previous_term
        if m.previous_index < self.log.snapshot_index:
            # Everything up to the snapshot is committed, so it agrees; begin there.
            return [self._answer(m, accepted=False, index=self.log.snapshot_index + 1)]
        if not agrees:
            return [self._answer(m, accepted=False, index=self.log.retry_from(m.previous_index))]
        fresh = self.log.merge(m.entries, committed=self.commit)
        if fresh:
            self.durable = min(self.durable, fresh[0].index - 1)
        last = m.previous_index + len(m.entries)
        effects: list[Effect] = self._commit_to(min(m.commit, last))
        effects += self._caught_up(m.leader)
        reply = self._answer(m, accepted=True, index=last)
        if fresh or self.durable < last:
            # Also behind writes that are still on their way.
            return [*effects, self._persist(entries=tuple(fresh), then=(reply,))]
        return [*effects, reply]

    def _caught_up(self, leader: str) -> list[Effect]:
        """Forget what was lost once an entry of this leader's term is committed: with it everything
        is that ever was. The lost vote may have been of its term, so this one counts as given."""
        lost, term = self.lost, self.log.term_at(self.commit)
        if lost is None or term != self.term or self.term < lost.term:
            return []
        if self.term == lost.term and self.log.last_index < lost.index:
            return []
        self.lost, self.vote = None, leader
        return [self._persist(), Trace(name="raft.caught-up", why=f"term {self.term}")]

    def _on_install(self, m: Install) -> list[Effect]:
        reply = self._answer(m, accepted=True, index=max(m.index, self.commit))
        if m.index <= self.commit:
            return [reply]
        self.log.reset(m.index, m.index_term)
        self.commit = self.durable = m.index
        return [Restore(snapshot=m, vote=self.vote, then=(reply,))]

    def _answer(self, m: Append | Install, *, accepted: bool, index: int) -> Send:
        reply = AppendReply(
            term=self.term, follower=self.me, accepted=accepted, index=index, round=m.round
        )
        return Send(to=m.leader, message=reply)

    def _on_append_reply(self, now_ns: int, m: AppendReply) -> list[Effect]:
        follower = self.followers.get(m.follower)
        if self.role != "leader" or m.term != self.term or follower is None:
            return []
        follower.heard_ns = now_ns
        follower.round = max(follower.round, m.round)
        effects: list[Effect] = [*self._reads_ready()]
        if not m.accepted:
            follower.next_index = max(1, min(m.index, self.log.last_index + 1))
            # A wiped node refuses what it once had. A late refusal lowers this needlessly, and
            # harmlessly: what is committed stays committed.
            follower.match_index = min(follower.match_index, follower.next_index - 1)
            return [*effects, self._send_to(m.follower)]
        follower.match_index = max(follower.match_index, m.index)
        follower.next_index = max(follower.next_index, follower.match_index + 1)
        effects += self._advance()
        if follower.next_index <= self.log.last_index:
            effects.append(self._send_to(m.follower))
        return effects

    # Leading.

    def _on_propose(self, event: Propose) -> list[Effect]:
        if not self.ready:
            return [NotLeading(leader=None if self.role == "leader" else self.leader)]
        entry = self.log.append(self.term, event.data)
        accepted = Accepted(index=entry.index, term=entry.term)
        return [accepted, self._persist(entries=(entry,)), *self._broadcast()]

    def _on_read(self, event: Read) -> list[Effect]:
        if not self.ready:
            leader = None if self.role == "leader" else self.leader
            return [NotLeading(leader=leader, ticket=event.ticket)]
        effects = self._broadcast()
        self.reads.append((event.ticket, self.round))
        return [*effects, *self._reads_ready()]

    def _reads_ready(self) -> list[Effect]:
        """Reads asked for before a broadcast that a majority has answered."""
        if not self.reads:
            return []
        rounds = [self.round, *(f.round for f in self.followers.values())]
        proven = reached_by_majority(rounds)
        done = [ticket for ticket, needed in self.reads if needed <= proven]
        self.reads = [(t, needed) for t, needed in self.reads if needed > proven]
        return [ReadReady(ticket=ticket, index=self.commit) for ticket in done]

    def _broadcast(self) -> list[Effect]:
        self.round += 1
        return [self._send_to(peer) for peer in self.followers]

    def _send_to(self, peer: str) -> Effect:
        follower = self.followers[peer]
        if follower.next_index <= self.log.snapshot_index:
            return SendSnapshot(to=peer, term=self.term, round=self.round)
        previous = follower.next_index - 1
        entries = self.log.since(follower.next_index, BATCH_ENTRIES_MAX)
        # Optimistic: a refusal says where to begin again.
        follower.next_index += len(entries)
        message = Append(
            term=self.term,
            leader=self.me,
            previous_index=previous,
            previous_term=self.log.term_at(previous) or 0,
            entries=entries,
            commit=self.commit,
            round=self.round,
        )
        return Send(to=peer, message=message)

    def _on_persisted(self, event: Persisted) -> list[Effect]:
        if self.log.term_at(event.index) != event.term:
            return [Trace(name="raft.persisted.ignored", why="replaced meanwhile")]
        self.durable = max(self.durable, event.index)
        return self._advance() if self.role == "leader" else []

    def _advance(self) -> list[Effect]:
        """Commit what a majority has on disk. Only entries of the own term are counted: an older
        one may be on a majority and still be replaced (the paper's figure 8)."""
        positions = [self.durable, *(f.match_index for f in self.followers.values())]
        index = reached_by_majority(positions)
        if index <= self.commit or self.log.term_at(index) != self.term:
            return []
        return self._commit_to(index)

    def _commit_to(self, index: int) -> list[Effect]:
        if index <= self.commit:
            return []
        invariant(index <= self.log.last_index, "commit what is there", index=index)
        entries = self.log.between(self.commit + 1, index)
        self.commit = index
        return [Apply(entries=entries)]

    def _persist(self, entries: tuple[Entry, ...] = (), then: tuple[Send, ...] = ()) -> Persist:
        return Persist(term=self.term, vote=self.vote, entries=entries, then=then)


def _refused(m: Message) -> bool:
    return isinstance(m, VoteReply) and not m.granted
