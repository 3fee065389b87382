"""A master's way back into its group, driven by rules beside what its whole history allows.

Answers come one at a time, and in between everything changes: who is listed, who copies, how much
time passes. The model keeps what was said, and when; from that alone it says whether the master may
be online. Claims P1 to P4.
"""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from machines import SETTINGS, finds

from maxq.reference.broker.membership.pre_online import (
    Announce,
    Answered,
    AskGroup,
    Begin,
    Effect,
    Grouped,
    Member,
    Online,
    PreOnline,
    Take,
    Tick,
    Took,
    Trace,
    host_of,
)
from maxq.reference.records import PhyOffset

SECOND = 1_000_000_000
EVICTION, REST = 4 * SECOND, SECOND
END = PhyOffset(1000)
MEMBERS = [Member(id=i, address=f"h{i}:1") for i in (1, 2, 3)]
SOME = st.sampled_from(MEMBERS)


class Returns(RuleBasedStateMachine):
    """One master, and up to three members."""

    def __init__(self) -> None:
        super().__init__()
        self.state = PreOnline(eviction_ns=EVICTION, rest_ns=REST)
        self.now = 1
        self.hosts: frozenset[str] = frozenset()
        self.asked: Effect | None = None
        self.listed: frozenset[Member] = frozenset(MEMBERS[:2])
        self.last: frozenset[Member] | None = None  # the last answer
        self.empty_since: int | None = None
        self.taken: dict[Member, int] = {}  # with what was announced, and still copying since
        self.announced = 0
        self.failed: dict[Member, int] = {}  # since when in vain
        self.longer: set[Member] = set()
        self.onlines, self.ticked = 0, False
        self.linking, self.linked_at = MEMBERS[0], 0  # the one that answered last, and when
        self.take(self.state.step(Begin(at_ns=self.now)))

    def take(self, effects: list[Effect]) -> None:
        self.asked = None
        for effect in effects:
            if isinstance(effect, Online):
                self.onlines += 1
                self.must_be_allowed()
            elif not isinstance(effect, Trace):
                assert self.asked is None, "one thing at a time"
                self.asked = effect
                if isinstance(effect, Announce):
                    self.announced = self.now

    def must_be_allowed(self) -> None:
        assert self.last is not None
        if not self.last:
            assert self.empty_since is not None
            assert self.now - self.empty_since >= EVICTION
        for member in self.last:
            heard = member in self.taken and host_of(member.address) in self.hosts
            waited = self.now - self.failed.get(member, self.now) >= EVICTION
            assert heard or (waited and member not in self.longer), member

    @rule(some=st.sets(SOME))
    def group_changes(self, some: set[Member]) -> None:
        self.listed = frozenset(some)

    @rule(some=st.sets(SOME), ns=st.integers(0, 6 * SECOND))
    def time_passes(self, some: set[Member], ns: int) -> None:
        self.now += ns
        self.hosts = frozenset(host_of(m.address) for m in some)
        self.taken = {m: at for m, at in self.taken.items() if host_of(m.address) in self.hosts}
        before, self.ticked = self.state.phase, True
        effects = self.state.step(Tick(at_ns=self.now, hosts=self.hosts, end=END))
        if (before, self.state.phase) == ("linking", "resting"):
            self.failed.setdefault(self.linking, self.linked_at)
        if self.asked is None:
            self.take(effects)
        else:
            assert effects == []

    @precondition(lambda self: isinstance(self.asked, AskGroup))
    @rule(silent=st.booleans())
    def the_group_is_told(self, silent: bool) -> None:
        self.last = None if silent else self.listed
        if silent or self.listed:
            self.empty_since = None
        elif self.empty_since is None:
            self.empty_since = self.now
        if not silent:
            self.failed = {m: at for m, at in self.failed.items() if m in self.listed}
            self.longer &= self.listed
        members = None if silent else tuple(self.listed)
        self.take(self.state.step(Grouped(at_ns=self.now, members=members)))

    @precondition(lambda self: isinstance(self.asked, Announce))
    @rule(end=st.sampled_from([None, END, PhyOffset(END + 1)]))
    def a_member_answers(self, end: PhyOffset | None) -> None:
        assert isinstance(self.asked, Announce)
        member = self.asked.member
        if end is None:
            self.failed.setdefault(member, self.now)
        elif end > (END if self.ticked else 0):
            self.longer.add(member)
        else:
            self.longer.discard(member)
            self.linking, self.linked_at = member, self.now
        self.take(self.state.step(Answered(at_ns=self.now, member=member, end=end)))

    @precondition(lambda self: isinstance(self.asked, Take))
    @rule(done=st.booleans())
    def a_member_gives(self, done: bool) -> None:
        assert isinstance(self.asked, Take)
        member = self.asked.member
        if done:
            self.taken[member] = self.announced
            self.failed.pop(member, None)
        else:
            self.failed.setdefault(member, self.now)
        self.take(self.state.step(Took(at_ns=self.now, member=member, done=done)))

    @rule()
    def all_is_well(self) -> None:
        """Everybody copies, and what is asked is answered."""
        self.time_passes(set(MEMBERS), REST)
        if isinstance(self.asked, AskGroup):
            self.the_group_is_told(silent=False)
        elif isinstance(self.asked, Announce):
            self.a_member_answers(END)
        elif isinstance(self.asked, Take):
            self.a_member_gives(done=True)

    @invariant()
    def it_is_online_once_and_then_idle(self) -> None:
        assert self.onlines == (not self.state.isolated)


TestReturns = Returns.TestCase
TestReturns.settings = settings(SETTINGS, max_examples=120)


def test_an_empty_group_that_is_believed_at_once_is_found(monkeypatch: Any) -> None:
    honest = PreOnline._on_group

    def on_group(self: PreOnline, event: Grouped) -> Any:
        return honest(self, event) if event.members != () else self._online()

    monkeypatch.setattr(PreOnline, "_on_group", on_group)
    finds(Returns)


def test_a_member_that_is_passed_by_its_index_is_found(monkeypatch: Any) -> None:
    honest = PreOnline._next

    def following(self: PreOnline, at_ns: int, listed: Any) -> Any:
        rest = sorted(listed, key=lambda m: m.id)[len(self.taken) :]
        return honest(self, at_ns, frozenset(rest))

    monkeypatch.setattr(PreOnline, "_next", following)
    finds(Returns)


def test_who_is_longer_and_left_out_is_found(monkeypatch: Any) -> None:
    honest = PreOnline._on_answer

    def on_answer(self: PreOnline, event: Answered) -> Any:
        effects = honest(self, event)
        self.left_out |= self.longer.keys()
        return effects

    monkeypatch.setattr(PreOnline, "_on_answer", on_answer)
    finds(Returns)
