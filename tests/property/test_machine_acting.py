"""Who acts in a group, driven by rules beside a name server that knows who is there.

The name server's table changes; what it says may be late, and overtaken by what it says later. The
model is the table, and what the newest word says: a slave acts if and only if its own id is the
smallest of that. Claims A1 to A3.
"""

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from machines import SETTINGS, finds

from maxq.reference.broker.membership.acting import (
    HAND_OVER_NS,
    UNHEARD_NS,
    Act,
    Acting,
    Announced,
    Follow,
    Leave,
    Named,
    Offered,
    Online,
    Polled,
)
from maxq.reference.records import BrokerId

IDS = st.sampled_from([0, 1, 2])
ADDRESS = {0: "m:1", 1: "a:1", 2: "b:1"}


class ActingMachine(RuleBasedStateMachine):
    """Three brokers of a group, and a name server."""

    @initialize()
    def begin(self) -> None:
        self.now = 0
        self.table = dict(ADDRESS)
        self.brokers = [Acting(me=BrokerId(i), enabled=True) for i in ADDRESS]
        self.heard: dict[int, tuple[int, int]] = {}  # id -> from when its newest word is, and it
        self.follows: dict[int, str] = {}
        self.late: list[tuple[int, Polled | Announced | Named]] = []  # to whom

    def tell(self, me: int, event: Polled | Announced | Named) -> None:
        core = self.brokers[me]
        before = core.acts
        at = event.at_ns if isinstance(event, Announced) else event.asked_ns
        newest = self.heard.get(me, (-1, 0))
        says = self.says(event)
        if says is not None and at >= newest[0]:
            self.heard[me] = (at, says)
        for effect in core.step(event):
            match effect:
                case Act():
                    assert effect.on != before, "told twice"
                    before = effect.on
                case Leave():
                    self.follows[me] = ""
                case Follow():
                    assert effect.address == ADDRESS[0], "follows who is no master"
                    self.follows[me] = effect.address

    def says(self, event: Polled | Announced | Named) -> int | None:
        """Which id is the smallest by a word; None: it does not say."""
        if isinstance(event, Polled):
            return min(event.members, default=None)
        return event.min_id if isinstance(event, Announced) else None

    def word(self, kind: str) -> Polled | Announced | Named:
        self.now += 1
        if kind == "polled":
            return Polled(asked_ns=self.now, members=dict(self.table))
        smallest = min(self.table, default=0)
        if kind == "named":
            master = self.table.get(0, "")
            return Named(asked_ns=self.now, master_address=master, ha_address="")
        gone = next((a for i, a in ADDRESS.items() if i not in self.table), "")
        return Announced(
            at_ns=self.now, min_id=smallest, min_address=ADDRESS[smallest], offline_address=gone
        )

    @rule(who=IDS)
    def one_is_evicted(self, who: int) -> None:
        self.table.pop(who, None)

    @rule(who=IDS)
    def one_registers(self, who: int) -> None:
        self.table[who] = ADDRESS[who]

    @rule(who=IDS, kind=st.sampled_from(["polled", "announced", "named"]))
    def a_word_is_heard(self, who: int, kind: str) -> None:
        self.tell(who, self.word(kind))

    @rule(who=IDS, kind=st.sampled_from(["polled", "announced", "named"]))
    def a_word_is_on_its_way(self, who: int, kind: str) -> None:
        self.late.append((who, self.word(kind)))

    @rule()
    def a_late_word_is_heard(self) -> None:
        if self.late:
            self.tell(*self.late.pop(0))

    @rule(who=IDS)
    def a_name_server_has_just_started(self, who: int) -> None:
        """It knows nobody: that says nothing."""
        self.now += 1
        acts = self.brokers[who].acts
        self.tell(who, Polled(asked_ns=self.now, members={}))
        assert self.brokers[who].acts == acts

    @rule(who=IDS)
    def strange_things_are_heard(self, who: int) -> None:
        """Of a stranger that has this one's id, or without an address; and an unlisted master
        announces itself: it is copied, and who acts goes on, but takes no commits."""
        self.now += 1
        core = self.brokers[who]
        acts = core.acts
        assert core.step(Announced(at_ns=self.now, min_id=-1, min_address="x:1")) == []
        assert core.step(Announced(at_ns=self.now, min_id=who, min_address="")) == []
        offer = Offered(at_ns=self.now, master_address=ADDRESS[0], ha_address="m:2")
        assert all(isinstance(effect, Follow) for effect in core.step(offer))
        assert core.hands_over(self.now) == (who != 0)
        assert not core.hands_over(self.now + HAND_OVER_NS)
        assert core.acts == acts

    @invariant()
    def who_acts_takes_no_tables(self) -> None:
        assert not any(b.acts and b.listed for b in getattr(self, "brokers", ()))

    @invariant()
    def a_slave_acts_by_the_newest_word(self) -> None:
        for me, (_, smallest) in getattr(self, "heard", {}).items():
            assert self.brokers[me].acts == (me != 0 and smallest == me)

    @invariant()
    def a_master_never_acts(self) -> None:
        if hasattr(self, "brokers"):
            assert not self.brokers[0].acts


TestActing = ActingMachine.TestCase
TestActing.settings = settings(SETTINGS, max_examples=100)


def test_an_older_word_over_a_newer_one_is_found(monkeypatch: Any) -> None:
    honest = Acting.step

    def step(self: Acting, event: Any) -> Any:
        self._as_of_ns = -1
        return honest(self, event)

    monkeypatch.setattr(Acting, "step", step)
    machine = ActingMachine()
    machine.begin()
    machine.a_word_is_on_its_way(who=1, kind="polled")
    machine.one_is_evicted(who=0)
    machine.a_word_is_heard(who=1, kind="polled")
    machine.a_slave_acts_by_the_newest_word()
    machine.a_late_word_is_heard()
    with pytest.raises(AssertionError):
        machine.a_slave_acts_by_the_newest_word()


def test_an_empty_group_taken_for_me_is_found(monkeypatch: Any) -> None:
    honest = Acting._on_polled

    def on_polled(self: Acting, event: Polled) -> Any:
        members = event.members or {self.me: "me:1"}
        return honest(self, Polled(asked_ns=event.asked_ns, members=members))

    monkeypatch.setattr(Acting, "_on_polled", on_polled)
    finds(ActingMachine)


def test_a_slave_leaves_its_master_only_when_that_one_is_gone() -> None:
    """And follows it again, at the address of the announcement, when it is back."""
    core = Acting(me=BrokerId(1), enabled=True)
    assert core.step(Polled(asked_ns=1, members={0: "m:1", 1: "a:1"})) == [
        Follow(address="m:1", ha_address="")
    ]
    other = Polled(asked_ns=2, members={0: "n:1", 1: "a:1"}, copying=True)
    assert core.step(other) == []  # two name servers disagree
    gone = Announced(at_ns=3, min_id=1, min_address="a:1", offline_address="m:1")
    assert core.step(gone) == [Act(on=True), Leave()]
    back = Announced(at_ns=4, min_id=0, min_address="m:1", ha_address="m:2")
    assert core.step(back) == [Act(on=False), Follow(address="m:1", ha_address="m:2")]


def isolated() -> Acting:
    return Acting(me=BrokerId(1), enabled=True, eviction_ns=5, isolated=True)


def test_a_slave_that_starts_copies_the_listed_master_first() -> None:
    """P8; whatever overtakes that."""
    core = isolated()
    listed = {0: "m:1", 2: "b:1"}
    assert core.step(Polled(asked_ns=1, members=listed)) == [Follow(address="m:1", ha_address="")]
    assert core.step(Polled(asked_ns=2, members=listed)) == []
    assert core.step(Announced(at_ns=3, min_id=1, min_address="a:1")) == []
    assert core.step(Named(asked_ns=4, master_address="m:1", ha_address="m:2")) == []
    assert (core.isolated, core.acts) == (True, False)
    assert core.step(Polled(asked_ns=5, members=listed, copying=True)) == [Online()]
    assert not core.isolated


def test_a_slave_that_starts_waits_for_no_master_that_is_not_listed() -> None:
    """Its own former entry says that the group is there; an empty one says nothing for a while."""
    core = isolated()
    assert core.step(Polled(asked_ns=1, members={1: "a:1"})) == [Online()]
    assert core.step(Polled(asked_ns=2, members={1: "a:1"})) == [Act(on=True)]
    alone = isolated()
    assert alone.step(Polled(asked_ns=1, members={})) == []
    assert alone.step(Polled(asked_ns=5, members={})) == []
    assert alone.step(Polled(asked_ns=6, members={})) == [Online()]


def test_another_master_is_not_believed_while_one_is_copied() -> None:
    core = isolated()
    core.step(Polled(asked_ns=1, members={0: "m:1"}))
    other = Offered(at_ns=2, master_address="n:1", ha_address="n:2", copying=True)
    assert core.step(other) == []
    assert core.master == "m:1"


def test_without_the_key_a_slave_follows_and_never_acts() -> None:
    core = Acting(me=BrokerId(1), enabled=False)
    named = Named(asked_ns=1, master_address="m:1", ha_address="m:2")
    assert core.step(named) == [Follow(address="m:1", ha_address="m:2")]
    gone = Announced(at_ns=2, min_id=1, min_address="a:1", offline_address="m:1")
    assert core.step(gone) == []
    assert not core.acts


def test_who_took_a_commit_unheard_is_ahead_until_a_name_server_answers() -> None:
    """A name server that answers each second lets a slave copy, whatever clients commit to it."""
    core = Acting(me=BrokerId(1), enabled=True)
    core.step(Polled(asked_ns=10, members={0: "m:1", 1: "a:1"}))
    assert not core.is_ahead(10 + 2 * UNHEARD_NS)
    core.took_commit(20)
    assert [core.is_ahead(at + UNHEARD_NS) for at in (10, 11)] == [False, True]
    core.step(Polled(asked_ns=19, members={0: "m:1", 1: "a:1"}))
    assert core.is_ahead(20 + UNHEARD_NS), "that may be from before the commit"
    core.step(Polled(asked_ns=21, members={0: "m:1", 1: "a:1"}))
    assert not core.is_ahead(22 + UNHEARD_NS)
