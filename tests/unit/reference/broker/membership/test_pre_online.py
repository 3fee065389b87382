"""What a master on its way back must have heard, in which order, and for whom it waits how long."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
