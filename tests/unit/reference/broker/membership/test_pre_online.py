"""What a master on its way back must have heard, in which order, and for whom it waits how long."""

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from maxq.reference.broker.membership.pre_online import (
    EVICTIONS,
    FRESH_NS,
    Announce,
    Answered,
    AskGroup,
    Begin,
    Effect,
    Event,
    Grouped,
    Member,
    Online,
    PreOnline,
    Take,
    Tick,
    Took,
    Trace,
    clamped,
    host_of,
    larger,
)
from maxq.reference.broker.membership.returning import merged
from maxq.reference.records import PhyOffset

SECOND = 1_000_000_000
EVICTION, REST = 4 * SECOND, SECOND
ONE, TWO = Member(id=1, address="h1:10911"), Member(id=2, address="h2:10911")
END = PhyOffset(1000)


class World:
    """Members as they are, and a master that asks them; everything is answered at once."""

    def __init__(self, *members: Member) -> None:
        self.state = PreOnline(eviction_ns=EVICTION, rest_ns=REST)
        self.listed: set[Member] | None = set(members)
        self.ends: dict[Member, PhyOffset | None] = dict.fromkeys(members, END)
        self.copying: set[str] = {host_of(m.address) for m in members}
        self.gives: dict[Member, bool] = dict.fromkeys(members, True)
        self.now = 0
        self.seen: list[Effect] = []

    def do(self, effects: list[Effect]) -> None:
        while effects:
            effect = effects.pop(0)
            self.seen.append(effect)
            match effect:
                case AskGroup():
                    listed = None if self.listed is None else tuple(self.listed)
                    effects += self.state.step(Grouped(at_ns=self.now, members=listed))
                case Announce(member=member):
                    end = self.ends[member]
                    effects += self.state.step(Answered(at_ns=self.now, member=member, end=end))
                case Take(member=member):
                    took = Took(at_ns=self.now, member=member, done=self.gives[member])
                    effects += self.state.step(took)
                case Online() | Trace():
                    pass

    def begin(self) -> None:
        self.tick()
        self.do(self.state.step(Begin(at_ns=self.now)))

    def tick(self) -> None:
        hosts = frozenset(self.copying)
        self.do(self.state.step(Tick(at_ns=self.now, hosts=hosts, end=END)))

    def wait(self, ns: int, *, step: int = SECOND // 5) -> None:
        end = self.now + ns
        while self.now < end:
            self.now += step
            self.tick()

    @property
    def online_count(self) -> int:
        return sum(isinstance(e, Online) for e in self.seen)

    def took(self) -> list[int]:
        return [e.member.id for e in self.seen if isinstance(e, Take)]


def test_each_member_is_taken_by_its_id_then_the_master_goes_online_once() -> None:
    world = World(TWO, ONE)
    assert not world.state.isolated
    world.begin()
    assert (world.took(), world.online_count, world.state.isolated) == ([1, 2], 1, False)
    world.wait(10 * EVICTION)
    assert world.online_count == 1


def test_nothing_is_taken_of_a_member_before_it_copies_the_log() -> None:
    world = World(ONE)
    world.copying.clear()
    world.begin()
    world.wait(FRESH_NS - SECOND)
    assert (world.took(), world.state.isolated) == ([], True)
    world.copying.add("h1")
    world.tick()
    assert (world.took(), world.online_count) == ([1], 1)


def test_a_member_that_comes_between_two_attempts_is_not_left_out() -> None:
    """RocketMQ's cursor is an index, and skips whom an earlier id pushes behind it (R5)."""
    world = World(TWO)
    world.ends[ONE], world.gives[ONE] = None, True
    world.listed = {ONE, TWO}
    world.begin()
    assert (world.took(), world.state.isolated) == ([], True)
    world.wait(2 * SECOND)
    assert set(world.took()) == {2}
    world.ends[ONE] = END
    world.copying.add("h1")
    world.wait(2 * SECOND)
    assert world.online_count == 1
    assert 1 in world.took()


@pytest.mark.parametrize("fault", ["dead", "deaf", "mute"])
def test_who_is_listed_and_not_there_holds_the_master_back_for_two_evictions(fault: str) -> None:
    """It does not answer, or does not copy, or gives no tables (P3; for ever in RocketMQ)."""
    world = World(ONE, TWO)
    if fault == "dead":
        world.ends[ONE] = None
    elif fault == "deaf":
        world.copying.remove("h1")
    else:
        world.gives[ONE] = False
    world.begin()
    world.wait(EVICTIONS * EVICTION - SECOND)
    assert world.state.isolated
    assert world.state.held_by() == "h1:10911 (id 1)"
    world.wait(EVICTION + 3 * SECOND)
    assert world.online_count == 1
    assert 2 in world.took()
    [said] = [e for e in world.seen if isinstance(e, Trace)]
    assert said.name == "broker.preonline.left-out"
    assert said.why.startswith("h1:10911 (id 1)")


def test_who_is_dead_is_not_waited_for_once_it_is_not_listed() -> None:
    world = World(ONE, TWO)
    world.ends[ONE] = None
    world.begin()
    world.wait(2 * SECOND)
    assert world.state.isolated
    world.listed = {TWO}
    world.wait(2 * SECOND)
    assert world.online_count == 1


def test_a_longer_log_holds_the_master_back_until_its_member_is_gone() -> None:
    """Its tail was acknowledged."""
    world = World(ONE, TWO)
    world.ends[ONE] = PhyOffset(END + 1)
    world.begin()
    world.wait(5 * EVICTION)
    assert world.state.isolated
    assert world.state.held_by() == "h1:10911 (id 1): its log ends at 1001, this one at 1000"
    assert [e.name for e in world.seen if isinstance(e, Trace)] == ["broker.preonline.held"]
    world.ends[ONE] = None  # silent, but listed
    world.wait(5 * EVICTION)
    assert world.state.isolated
    world.listed = {TWO}
    world.wait(5 * SECOND)
    assert world.online_count == 1


def test_an_empty_group_is_believed_after_an_eviction_time() -> None:
    """A name server that has just started knows nobody (R3)."""
    world = World()
    world.begin()
    world.wait(EVICTION - SECOND)
    assert world.state.isolated
    world.wait(2 * SECOND)
    assert world.online_count == 1


def test_no_answer_is_no_empty_group() -> None:
    world = World()
    world.listed = None
    world.begin()
    world.wait(10 * EVICTION)
    assert world.state.isolated
    world.listed = set()
    world.wait(EVICTION + 2 * SECOND)
    assert world.online_count == 1


def test_tables_that_are_old_by_the_end_are_taken_again() -> None:
    """The acting slave takes commits again by then."""
    world = World(ONE, TWO)
    world.copying.remove("h2")
    world.begin()
    world.wait(FRESH_NS + SECOND)
    assert world.took() == [1]
    world.copying.add("h2")
    world.tick()
    assert (world.took(), world.online_count) == ([1, 2, 1, 2], 1)


def test_who_has_left_off_copying_gives_its_tables_again() -> None:
    world = World(ONE, TWO)
    world.gives[TWO] = False
    world.begin()
    assert world.took() == [1, 2]
    world.copying.remove("h1")
    world.wait(REST)
    world.gives[TWO] = True
    world.copying.add("h1")
    world.wait(2 * REST)
    assert world.took().count(1) >= 2
    assert world.online_count == 1


def test_a_broker_that_was_dropped_begins_anew() -> None:
    world = World(ONE)
    world.begin()
    world.begin()
    assert (world.took(), world.online_count) == ([1, 1], 2)


@pytest.mark.parametrize("address", ["", "h1", "h1:99999", ":1"])
def test_an_address_that_is_none_is_no_member(address: str) -> None:
    world = World(ONE)
    world.listed = {ONE, Member(id=3, address=address), Member(id=-1, address="h9:1"),
                    Member(id=0, address="h0:1")}  # fmt: skip
    world.begin()
    assert (world.took(), world.online_count) == ([1], 1)


def test_what_was_not_asked_for_changes_nothing() -> None:
    world = World(ONE)
    world.copying.clear()
    world.begin()
    stray: list[Event] = [
        Took(at_ns=0, member=ONE, done=True), Took(at_ns=0, member=TWO, done=True),
        Answered(at_ns=0, member=TWO, end=END), Grouped(at_ns=0, members=()), Begin(at_ns=0),
    ]  # fmt: skip
    assert [world.state.step(event) for event in stray] == [[]] * len(stray)
    assert world.state.phase == "linking"


TABLES = st.dictionaries(st.integers(0, 4), st.integers(0, 9), max_size=4)
OFFSETS = st.dictionaries(st.sampled_from(["t@g", "t@h", "u@g"]), TABLES, max_size=3)


@given(st.lists(OFFSETS, min_size=1, max_size=4))
def test_of_any_order_of_tables_the_larger_offsets_are_left(
    tables: list[dict[str, dict[int, int]]],
) -> None:
    """P5, against every single commit: none goes back, none is made up."""
    mine: dict[str, dict[int, int]] = {}
    for theirs in tables:
        mine = merged(mine, theirs)
    commits: dict[tuple[str, int], list[int]] = {}
    for table in tables:
        for key, queues in table.items():
            for queue, offset in queues.items():
                commits.setdefault((key, queue), []).append(offset)
    left = {(key, queue): at for key, queues in mine.items() for queue, at in queues.items()}
    assert left == {where: max(all_) for where, all_ in commits.items()}


@given(TABLES, TABLES, TABLES)
def test_progress_is_not_beyond_its_queue(
    mine: Mapping[int, int], theirs: Mapping[int, int], ends: Mapping[int, int]
) -> None:
    """P7."""
    left = clamped(larger(mine, theirs), ends)
    assert all(at <= ends[level] for level, at in left.items())
    assert left.keys() == (mine.keys() | theirs.keys()) & ends.keys()


MEMBERS = [Member(id=i, address=f"h{i}:1") for i in (1, 2, 3)]
SOME = st.sampled_from(MEMBERS)


class Returns(RuleBasedStateMachine):
    """The state machine beside what its whole history allows.

    Answers come one at a time, in between everything changes. The model keeps what was said, and
    when; from that alone it says whether the master may be online.
    """

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
        self.linking, self.linked_at = ONE, 0  # the one that answered last, and when
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

    @invariant()
    def it_is_online_once_and_then_idle(self) -> None:
        assert self.onlines == (not self.state.isolated)


TestReturns = Returns.TestCase
TestReturns.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
