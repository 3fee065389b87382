"""A master on its way back into its group: what it takes from whom before it is shown again. Pure.

While a master was gone a slave may have acted for it, and has taken what consumers committed. So a
master that starts, or that name servers have dropped, stays *isolated* until every member of its
group has given what it has: members are announced to, copy the log, and give their tables; then the
master goes online, once. Members are told apart by id and address, not by their place in a list,
so one that comes or goes between two looks is not left out; and the list is asked for again before
the end.

- A member that is listed and does not answer, or does not copy, or gives no tables, holds the
  master back for two eviction times, then it is left out: a dead one is not listed by then.
- A member whose log is longer keeps the master isolated for as long as it is listed: its tail was
  acknowledged, and is not here.
- One that no longer copies after it gave its tables, gives them again: it may have taken commits.
  So does, right before the end, one that gave them longer than `FRESH_NS` ago: for that long a
  slave takes no commits once it was announced to (`maxq.reference.broker.membership.acting`).
- An empty group may be a name server that has just started: it must stay empty for one eviction
  time before the master goes online alone.
- A master that was paused meanwhile begins again: it waited for nobody in that time, and what it
  learned before may be out of date.

Times are ns of the node's monotonic clock, offsets bytes of the commit log. Claims: P1, P2, P3, P4.
Source: RocketMQ ``BrokerPreOnlineService``, which goes by index, goes online at once in an empty
group and waits for ever for who cannot be reached; docs/spec/acting-master.md 5.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Literal, assert_never

from maxq.reference.records import PhyOffset, Record
from maxq.reference.rpc import split_address

EVICTIONS = 2  # for how many eviction times a member is waited for
LINK_NS = 10_000_000_000  # in which a member that was announced to must copy
FRESH_NS = 2_000_000_000  # after an announcement its member's tables are still what they were
AGAIN_MAX = 3  # times that a member gives tables because they were not fresh

Phase = Literal["online", "resting", "asking", "announcing", "linking", "taking"]


class Member(Record):
    """A broker that a name server lists. An id may be listed with two addresses, an old one too."""

    id: int
    address: str  # ip:port


# Events.


class Begin(Record):
    """The broker starts, or finds that name servers have dropped it."""

    at_ns: int


class Grouped(Record):
    """Who is in the group, as all name servers say that answered; None where none did."""

    at_ns: int
    members: tuple[Member, ...] | None


class Answered(Record):
    """A member's answer to the announcement: where its log ends; None if there was no answer."""

    at_ns: int
    member: Member
    end: PhyOffset | None


class Took(Record):
    """A member's tables are merged and on the disk; or that failed."""

    at_ns: int
    member: Member
    done: bool


class Stalled(Record):
    """This process did not run for `FRESH_NS` or longer, until now."""

    at_ns: int


class Tick(Record):
    """Time has passed. `hosts` copy this log now, `end` is where it ends."""

    at_ns: int
    hosts: frozenset[str]
    end: PhyOffset


Event = Begin | Grouped | Answered | Took | Stalled | Tick


# Effects.


class AskGroup(Record):
    """Ask every name server for the group; deliver `Grouped`."""


class Announce(Record):
    """Tell a member who is master, and ask where its log ends; deliver `Answered`."""

    member: Member


class Take(Record):
    """Take a member's tables; deliver `Took`."""

    member: Member


class Online(Record):
    """Register, serve."""


class Trace(Record):
    """A fact for the log."""

    name: str
    why: str


Effect = AskGroup | Announce | Take | Online | Trace


@dataclass(slots=True)
class PreOnline:
    """The state of one master, id 0. `eviction_ns` is after what time name servers drop who is
    silent; `rest_ns` lies between two attempts."""

    eviction_ns: int
    rest_ns: int
    phase: Phase = "online"
    taken: dict[Member, int] = field(default_factory=dict)  # member -> when it was announced to
    left_out: set[Member] = field(default_factory=set)
    longer: dict[Member, PhyOffset] = field(default_factory=dict)  # listed now, and to where
    _end: int = 0  # of this log
    _since_ns: int = 0  # of this phase
    _tried_ns: dict[Member, int] = field(default_factory=dict)  # member -> since when, in vain
    _empty_ns: int | None = None  # since when nobody is listed
    _waiting: Member | None = None
    _announced_ns: int = 0  # to the one that is waited for
    _again: dict[Member, int] = field(default_factory=dict)  # member -> times it was taken again
    _hosts: frozenset[str] = frozenset()

    @property
    def isolated(self) -> bool:
        """Whether this broker must not be shown to anybody."""
        return self.phase != "online"

    def held_by(self) -> str:
        """Who keeps this broker isolated, and why; empty if nobody does for long."""
        longer = [f"{m.address} (id {m.id}): its log ends at {e}" for m, e in self._longer_now()]
        if longer:
            return "; ".join(longer) + f", this one at {self._end}"
        waiting = sorted(self._tried_ns.keys() - self.left_out, key=lambda m: (m.id, m.address))
        return "; ".join(f"{m.address} (id {m.id})" for m in waiting)

    def step(self, event: Event) -> list[Effect]:
        """Take one event; return what to do, in this order. An event that is not waited for, of a
        member that is no longer asked, changes nothing."""
        match event:
            case Begin():
                return self._on_begin(event)
            case Grouped():
                return self._on_group(event) if self.phase == "asking" else []
            case Answered():
                return self._on_answer(event) if self._awaits(event.member, "announcing") else []
            case Took():
                return self._on_taken(event) if self._awaits(event.member, "taking") else []
            case Stalled():
                return self._on_stalled(event)
            case Tick():
                return self._on_tick(event)
            case _:
                assert_never(event)

    def _awaits(self, member: Member, phase: Phase) -> bool:
        return self.phase == phase and self._waiting == member

    def _enter(self, phase: Phase, at_ns: int, member: Member | None = None) -> None:
        self.phase, self._since_ns, self._waiting = phase, at_ns, member

    def _on_begin(self, event: Begin) -> list[Effect]:
        if self.isolated:
            return []
        self._forget()
        return self._ask(event.at_ns)

    def _on_stalled(self, event: Stalled) -> list[Effect]:
        """Answers that are under way are not waited for any more."""
        if not self.isolated:
            return []
        self._forget()
        self._rest(event.at_ns)
        return [Trace(name="broker.preonline.anew", why="this process was paused")]

    def _forget(self) -> None:
        self.taken, self.left_out = {}, set()
        self.longer, self._tried_ns, self._again = {}, {}, {}
        self._empty_ns = None

    def _ask(self, at_ns: int) -> list[Effect]:
        self._enter("asking", at_ns)
        return [AskGroup()]

    # Who is there.

    def _on_group(self, event: Grouped) -> list[Effect]:
        if event.members is None:
            self._empty_ns = None  # nothing is known of anybody
            return self._rest(event.at_ns)
        listed = sound(event.members)
        self._forget_all_but(listed)
        if not listed:
            if self._empty_ns is None:
                self._empty_ns = event.at_ns
            waited = event.at_ns - self._empty_ns >= self.eviction_ns
            return self._online() if waited else self._rest(event.at_ns)
        self._empty_ns = None
        return self._next(event.at_ns, listed)

    def _forget_all_but(self, listed: Set[Member]) -> None:
        """Who is listed no longer holds nobody up; if it returns, it counts anew."""
        for table in (self.longer, self._tried_ns):
            for member in [m for m in table if m not in listed]:
                del table[member]
        self.left_out &= listed

    def _next(self, at_ns: int, listed: Set[Member]) -> list[Effect]:
        """Turn to the next member; go online when there is none."""
        self.taken = {m: at for m, at in self.taken.items() if self._copies(m)}
        missing = listed - self.taken.keys() - self.left_out
        member = min(missing, key=self._turn, default=None) or self._stale(at_ns, listed)
        if member is None:
            return self._online()
        self._announced_ns = at_ns
        self._enter("announcing", at_ns, member)
        return [Announce(member=member)]

    def _turn(self, member: Member) -> tuple[bool, int, int, str]:
        """Who has waited in vain comes last: the others are not to wait for it."""
        tried = self._tried_ns.get(member, -1)
        return member in self.longer, tried, member.id, member.address

    def _stale(self, at_ns: int, listed: Set[Member]) -> Member | None:
        """Who must give its tables again; its commits went on, maybe, after it gave them."""
        for member, announced_ns in self.taken.items():
            again = self._again.get(member, 0)
            if member in listed and at_ns - announced_ns >= FRESH_NS and again < AGAIN_MAX:
                self._again[member] = again + 1
                return member
        return None

    def _copies(self, member: Member) -> bool:
        return host_of(member.address) in self._hosts

    def _online(self) -> list[Effect]:
        self._enter("online", 0)
        return [Online()]

    def _rest(self, at_ns: int) -> list[Effect]:
        self._enter("resting", at_ns)
        return []

    # One member.

    def _on_answer(self, event: Answered) -> list[Effect]:
        if event.end is None:
            return self._in_vain(event.at_ns, event.member, "no answer")
        if event.end > self._end:
            new = self.longer.get(event.member) != event.end
            self.longer[event.member] = event.end
            self._rest(event.at_ns)
            return [Trace(name="broker.preonline.held", why=self.held_by())] if new else []
        self.longer.pop(event.member, None)
        self._enter("linking", event.at_ns, event.member)
        return self._linked(event.at_ns, event.member)

    def _linked(self, at_ns: int, member: Member) -> list[Effect]:
        if self._copies(member):
            self._enter("taking", at_ns, member)
            return [Take(member=member)]
        return []

    def _on_taken(self, event: Took) -> list[Effect]:
        if not event.done:
            return self._in_vain(event.at_ns, event.member, "no tables")
        self._tried_ns.pop(event.member, None)
        self.taken[event.member] = self._announced_ns
        return self._ask(event.at_ns)

    def _in_vain(self, at_ns: int, member: Member, why: str) -> list[Effect]:
        """An attempt failed: another one comes, or the member is left out."""
        since = self._tried_ns.setdefault(member, at_ns)
        self._rest(at_ns)
        if at_ns - since < EVICTIONS * self.eviction_ns or member in self.longer:
            return []
        self.left_out.add(member)
        said = f"{member.address} (id {member.id}), listed for {EVICTIONS} evictions: {why}"
        return [Trace(name="broker.preonline.left-out", why=said)]

    # Time.

    def _on_tick(self, event: Tick) -> list[Effect]:
        self._hosts, self._end = event.hosts, event.end
        member = self._waiting
        if self.phase == "resting" and event.at_ns - self._since_ns >= self.rest_ns:
            return self._ask(event.at_ns)
        if self.phase == "linking" and member is not None:
            if event.at_ns - self._since_ns >= min(LINK_NS, self.eviction_ns):
                self._tried_ns.setdefault(member, self._since_ns)
                return self._in_vain(event.at_ns, member, "it does not copy the log")
            return self._linked(event.at_ns, member)
        return []

    def _longer_now(self) -> list[tuple[Member, PhyOffset]]:
        return sorted(self.longer.items(), key=lambda item: (item[0].id, item[0].address))


def sound(members: tuple[Member, ...]) -> frozenset[Member]:
    """Those that can be slaves of this master."""
    return frozenset(m for m in members if m.id > 0 and host_of(m.address))


def host_of(address: str) -> str:
    """The host part of ip:port; empty if that is none."""
    try:
        return split_address(address)[0]
    except ValueError:
        return ""


def larger(mine: Mapping[int, int], theirs: Mapping[int, int]) -> dict[int, int]:
    """Of two tables the larger value of each key, whatever their versions say: a version moves with
    one commit in some hundred, so an older one may hold the later commit.

    A reset backwards that was made meanwhile is lost so, and has to be repeated.
    """
    return {
        key: max(mine.get(key, offset), theirs.get(key, offset))
        for key, offset in sorted({**mine, **theirs}.items())
    }


def clamped(progress: Mapping[int, int], ends: Mapping[int, int]) -> dict[int, int]:
    """Progress by level, none beyond the end of its queue: what is behind it was lost."""
    return {level: min(at, ends[level]) for level, at in progress.items() if level in ends}
