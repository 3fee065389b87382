"""The master's SyncStateSet, driven by rules beside the controller that it cannot see.

The model is what truly holds: the controller's set, and proposals on their way to it. Whatever is
lost, late or doubled, the master must wait for every member of the set that holds (claims S6, S9).
"""

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from machines import SETTINGS, finds

from maxq.reference.broker.replication import sync_state_set as sets
from maxq.reference.broker.replication.sync_state_set import (
    JoinTiming,
    Outcome,
    ProposeSyncStateSet,
    SyncStateSet,
)
from maxq.reference.records import BrokerId, MasterEpoch

ME = BrokerId(1)
OTHERS = [BrokerId(i) for i in (2, 3, 4)]
TIMING = JoinTiming(hold_ns=20, pause_ns=50, retry_ns=10)
MEMBERS = st.frozensets(st.sampled_from(OTHERS))
Told = tuple[int, int, frozenset[BrokerId]]  # master epoch, epoch of the set, members


class SetMachine(RuleBasedStateMachine):
    """One master and one controller, and everything that is lost or late between them."""

    @initialize(members=MEMBERS)
    def begin(self, members: frozenset[BrokerId]) -> None:
        self.now = 0
        self.core = SyncStateSet(me=ME, timing=TIMING)
        self.term = 1
        self.truth = (1, 1, members | {ME})  # what the controller has decided
        self.sent: list[ProposeSyncStateSet] = []  # may still reach the controller
        self.told: list[Told] = [self.truth]  # what the master may still hear, of any age
        self.core.begin(MasterEpoch(1), members | {ME}, 1)

    @rule(by=st.integers(1, 30))
    def time_passes(self, by: int) -> None:
        self.now += by
        self.core.due(self.now)

    @rule(slave=st.sampled_from(OTHERS))
    def a_slave_is_near(self, slave: BrokerId) -> None:
        held = self.core.held
        if self.core.hold(self.now, slave):
            assert held is None
            assert slave in self.core.waited_for()

    @rule()
    def a_held_slave_is_lost(self) -> None:
        self.core.let_go(self.now)
        assert self.core.held is None

    @rule(gone=MEMBERS, ready=st.booleans())
    def the_master_proposes(self, gone: frozenset[BrokerId], ready: bool) -> None:
        joins = self.core.held if ready else None
        proposal = self.core.propose(self.now, gone=gone, joins=joins)
        if proposal is None:
            return
        assert ME in proposal.members
        assert set(proposal.members) <= self.core.in_question()
        assert list(proposal.members) == sorted(proposal.members)
        self.sent.append(proposal)

    @precondition(lambda self: self.sent)
    @rule(data=st.data(), answered=st.booleans(), again=st.booleans())
    def a_proposal_reaches_the_controller(
        self, data: st.DataObject, answered: bool, again: bool
    ) -> None:
        at = data.draw(st.integers(0, len(self.sent) - 1))
        proposal = self.sent[at] if again else self.sent.pop(at)
        term, epoch, members = self.truth
        fits = (proposal.master_epoch, proposal.sync_state_set_epoch) == (term, epoch)
        if fits and frozenset(proposal.members) != members:
            self.truth = (term, epoch + 1, frozenset(proposal.members))
            self.told.append(self.truth)
            if answered:
                self.core.adopt(MasterEpoch(term), self.truth[2], self.truth[1])
            return
        if answered and not again:
            # Refused for good only if no copy of it can be applied later.
            self.core.answered(self.now, proposal.number, "refused")

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def nobody_answers(self, data: st.DataObject) -> None:
        """The proposal may reach the controller all the same, now or later."""
        proposal = data.draw(st.sampled_from(self.sent))
        self.core.answered(self.now, proposal.number, "unknown")

    @rule(data=st.data())
    def the_master_hears_of_the_set(self, data: st.DataObject) -> None:
        """Of any age: polls and notifications overtake each other."""
        term, epoch, members = data.draw(st.sampled_from(self.told))
        before = self.core.epoch
        taken = self.core.adopt(MasterEpoch(term), members, epoch)
        assert taken == (term == self.term and epoch > before)

    @rule()
    def another_term_begins(self) -> None:
        self.term += 1
        self.truth = (self.term, self.truth[1] + 1, frozenset({ME}))
        self.told.append(self.truth)
        self.core.begin(MasterEpoch(self.term), self.truth[2], self.truth[1])

    @invariant()
    def the_set_that_holds_is_waited_for(self) -> None:
        if hasattr(self, "core"):
            assert self.truth[2] <= self.core.in_question() <= self.core.waited_for()
            assert ME in self.core.members

    @invariant()
    def lost_proposals_are_bounded(self) -> None:
        if hasattr(self, "core"):
            assert len(self.core.proposals) <= 2 ** len(OTHERS) + 1

    @rule(acked=st.dictionaries(st.sampled_from(OTHERS), st.integers(0, 9)), mine=st.integers(0, 9))
    def what_is_confirmed_everybody_has(self, acked: dict[BrokerId, int], mine: int) -> None:
        """Beside the definition itself: the most that no waited-for member lacks."""
        waited_for = self.core.waited_for()
        got = sets.confirmed(waited_for, ME, mine, acked)
        ends = {**acked, ME: mine}
        if waited_for <= ends.keys():
            assert got == max(n for n in range(10) if all(ends[m] >= n for m in waited_for))
        else:
            assert got is None
        for count in (1, 2):
            reached = sets.reached(self.core.members - {ME}, acked, count)
            have = [a for m, a in acked.items() if m in self.core.members]
            best = [n for n in range(10) if sum(a >= n for a in have) >= count]
            assert reached == max(best, default=None)


SetMachine.TestCase.settings = SETTINGS
TestSyncStateSetMachine = SetMachine.TestCase


def lost_is_refused(self: SyncStateSet, now_ns: int, number: int, outcome: Outcome) -> bool:
    """A proposal that nobody answered is forgotten."""
    return REAL_ANSWERED(self, now_ns, number, "refused")


def take_any_age(self: SyncStateSet, term: MasterEpoch, members: Any, epoch: int) -> bool:
    """What was heard last holds, though it is older."""
    if term == self.master_epoch:
        self.members, self.epoch = frozenset(members), epoch
    return term == self.master_epoch


def wait_for_members(self: SyncStateSet) -> frozenset[BrokerId]:
    """Nobody waits for who is proposed."""
    return self.members


REAL_ANSWERED = SyncStateSet.answered


@pytest.mark.parametrize(
    ("name", "wrong"),
    [("answered", lost_is_refused), ("adopt", take_any_age), ("in_question", wait_for_members)],
)
def test_the_machine_can_fail(monkeypatch: pytest.MonkeyPatch, name: str, wrong: object) -> None:
    monkeypatch.setattr(SyncStateSet, name, wrong)
    finds(SetMachine)
